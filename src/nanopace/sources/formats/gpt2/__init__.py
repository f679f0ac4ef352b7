"""Programs that reproduce GPT-2, and their relatives: build-nanogpt, llama2.c, llm.c, LLM.Q, minGPT, makemore."""
