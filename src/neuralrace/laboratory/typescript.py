"""The messages of `protocol` as TypeScript types: `python -m neuralrace.laboratory.typescript > FILE`."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from neuralrace.laboratory import protocol


def typescript() -> str:
    """The text of `frontend/src/protocol.ts`."""
    top = [m for m in vars(protocol).values() if isinstance(m, type) and issubclass(m, protocol.Message)]
    kinds: Any = [(m, "serialization") for m in top if m is not protocol.Message]
    schema = models_json_schema(kinds)[1]["$defs"]
    lines = ["// Made from src/neuralrace/laboratory/protocol.py; do not edit.", ""]
    for name, model in sorted(schema.items()):
        lines.append(f"/** {model.get('description', '').splitlines()[0]} */")
        lines.append(f"export interface {name} {{")
        lines += [f"  {field}: {_type(part)};" for field, part in model.get("properties", {}).items()]
        lines += ["}", ""]
    for name in ("Request", "Answer"):
        members = getattr(protocol, name)
        union = members.__args__[0].__args__ if name == "Request" else members.__args__
        lines.append(f"export type {name} = {' | '.join(m.__name__ for m in union)};")
    limits = {k: v for k, v in vars(protocol).items() if k.startswith("MAX_")}
    lines += ["", *(f"export const {k} = {v};" for k, v in limits.items())]
    return "\n".join(lines) + "\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " | ".join(f'"{v}"' for v in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        return " | ".join(_type(s) for s in schema.get("anyOf") or schema["oneOf"])
    kind = schema["type"]
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(_type(s) for s in schema['prefixItems'])}]"
        inner = _type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object":
        named = schema.get("patternProperties", {}).values()
        return f"Record<string, {_type(next(iter(named), None) or schema['additionalProperties'])}>"
    return {
        "integer": "number",
        "number": "number",
        "string": "string",
        "boolean": "boolean",
        "null": "null",
    }[kind]


if __name__ == "__main__":
    print(typescript(), end="")
