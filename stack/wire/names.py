"""Names on the wire: services, roles, spans and attributes, each written once.

The live processes and the history generator both use them, so a dashboard cannot tell one's
spans from the other's. The engine's are vLLM's own (old GenAI conventions); the gateway's and
the router's are the current GenAI and HTTP conventions plus a few `tokenweir.` ones.
"""

from __future__ import annotations

from typing import Final

# Resource.
SERVICE_NAME: Final = "service.name"
SERVICE_INSTANCE: Final = "service.instance.id"
SERVICE_VERSION: Final = "service.version"
GATEWAY_SERVICE: Final = "tokenweir-gateway"
ROUTER_SERVICE: Final = "tokenweir-router"
ENGINE_SERVICE: Final = "vllm"
ENGINE_MODULE: Final = "vllm.instrumenting_module_name"
ENGINE_PROCESS_ID: Final = "vllm.process_id"

# Instrumentation scopes.
STACK_SCOPE: Final = "tokenweir.stack"
ENGINE_SCOPE: Final = "vllm.tracing.otel"
ENGINE_MODULE_NAME: Final = "vllm.llm_engine"

# Span names.
CHAT_PATH: Final = "/v1/chat/completions"
COMPLETIONS_PATH: Final = "/v1/completions"
CHAT_SPAN: Final = f"POST {CHAT_PATH}"
ENGINE_SPAN: Final = "llm_request"
ALIVE_SPAN: Final = "tokenweir.alive"

# Every span of ours.
ROLE: Final = "tokenweir.role"
GATEWAY_ROLE: Final = "gateway"
ROUTER_ROLE: Final = "router"
ENGINE_ROLE: Final = "engine"

# Gateway.
TENANT: Final = "tenant.id"
USER: Final = "user.id"
FEATURE: Final = "feature"
ROUTE: Final = "http.route"
METHOD: Final = "http.request.method"
STATUS: Final = "http.response.status_code"
OPERATION: Final = "gen_ai.operation.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
SERVER_TTFT: Final = "gen_ai.server.time_to_first_token"
SERVER_ITL_P95: Final = "tokenweir.inter_token_latency.p95"
REQUEST_ID: Final = "gen_ai.request.id"
STREAM: Final = "gen_ai.request.stream"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
ERROR_TYPE: Final = "error.type"
OUTCOME: Final = "tokenweir.outcome"
OUTCOME_REASON: Final = "tokenweir.outcome_reason"
PRIORITY: Final = "tokenweir.priority"

# Router.
DECISION: Final = "tokenweir.decision"
ATTEMPT: Final = "tokenweir.attempt"
REPLICA: Final = "tokenweir.replica"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# Engine: vLLM's `llm_request`, in vLLM's order.
ENGINE_TTFT: Final = "gen_ai.latency.time_to_first_token"
ENGINE_E2E: Final = "gen_ai.latency.e2e"
ENGINE_QUEUE: Final = "gen_ai.latency.time_in_queue"
ENGINE_PROMPT_TOKENS: Final = "gen_ai.usage.prompt_tokens"
ENGINE_COMPLETION_TOKENS: Final = "gen_ai.usage.completion_tokens"
ENGINE_PREFILL: Final = "gen_ai.latency.time_in_model_prefill"
ENGINE_DECODE: Final = "gen_ai.latency.time_in_model_decode"
ENGINE_INFERENCE: Final = "gen_ai.latency.time_in_model_inference"
ENGINE_TOP_P: Final = "gen_ai.request.top_p"
ENGINE_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
ENGINE_TEMPERATURE: Final = "gen_ai.request.temperature"
ENGINE_N: Final = "gen_ai.request.n"

# Alive spans of engines.
GPU_TYPE: Final = "tokenweir.gpu.type"
GPU_COUNT: Final = "tokenweir.gpu.count"
