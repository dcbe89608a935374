"""Asks a server with vLLM's own benchmark client and prints what that says, one JSON object a line.

usage: vllm_client.py URL TOKENIZER PROMPTS SHAPE...
First `vllm bench serve` with so many prompts, one after the other, at URL/fixed; then one request to each URL/SHAPE.
"""
import asyncio
import json
import os
import sys
import tempfile

import aiohttp
from vllm.benchmarks.lib.endpoint_request_func import RequestFuncInput, async_request_openai_chat_completions
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

url, tokenizer, prompts, shapes = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]


def serve(out):
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    return main(parser.parse_args([
        "--backend", "openai-chat", "--base-url", url, "--endpoint", "/fixed/v1/chat/completions", "--model", "tiny",
        "--tokenizer", tokenizer, "--dataset-name", "random", "--random-input-len", "8", "--random-output-len", "5",
        "--num-prompts", prompts, "--max-concurrency", "1", "--ready-check-timeout-sec", "0", "--disable-tqdm",
        "--save-result", "--save-detailed", "--result-dir", out, "--result-filename", "result.json"]))


async def ask():
    answers = {}
    async with aiohttp.ClientSession() as session:
        for name in shapes:
            answers[name] = await async_request_openai_chat_completions(RequestFuncInput(
                prompt="hi", api_url=f"{url}/{name}/v1/chat/completions", prompt_len=7, output_len=2, model="tiny"), session)
    return answers


printed, sys.stdout = sys.stdout, sys.stderr  # its tables go to the log
with tempfile.TemporaryDirectory() as out:
    serve(out)
    with open(os.path.join(out, "result.json")) as f:
        print(json.dumps({"name": "fixed", "result": json.load(f)}), file=printed)
for name, a in asyncio.run(ask()).items():
    print(json.dumps({"name": name, "success": a.success, "output_tokens": a.output_tokens, "frames": len(a.itl) + 1, "error": a.error[-200:]}), file=printed)
