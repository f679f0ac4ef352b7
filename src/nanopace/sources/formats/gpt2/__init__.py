"""Those that reproduce GPT-2, and their heirs: build-nanogpt, llama2.c, llm.c, LLM.Q."""
