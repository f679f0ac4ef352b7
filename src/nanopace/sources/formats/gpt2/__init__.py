"""Programs that reproduce GPT-2, and their descendants: build-nanogpt, llama2.c, llm.c, LLM.Q."""
