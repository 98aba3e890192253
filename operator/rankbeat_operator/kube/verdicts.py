"""The aggregator's verdicts over TLS, with the operator's token."""

import functools
import ssl
from pathlib import Path

import aiohttp

from rankbeat_operator.errors import AggregatorError
from rankbeat_operator.model import verdicts
from rankbeat_operator.model.verdicts import Verdicts

_TIMEOUT = aiohttp.ClientTimeout(total=5.0, connect=2.0)


async def fetched(session: aiohttp.ClientSession, url: str, token_file: Path, ca_pem: str) -> Verdicts:
    """What the aggregator says now.

    url: of the aggregator, without a path. ca_pem: authorities that it may be signed by.

    Raises: AggregatorError with what was wrong.
    """
    if not ca_pem:
        raise AggregatorError("its certificate's authority is not known yet")
    try:
        headers = {"Authorization": f"Bearer {_token(token_file)}"}
        async with session.get(
            f"{url}/v1/verdicts", headers=headers, ssl=_trusting(ca_pem), timeout=_TIMEOUT
        ) as answer:
            if answer.status != 200:
                raise AggregatorError(f"it answered {answer.status}: {(await answer.text())[:200]}")
            return verdicts.verdicts(await answer.json())
    except aiohttp.ClientConnectorCertificateError as error:
        raise AggregatorError(f"its certificate is not trusted: {error.certificate_error}") from error
    except aiohttp.ClientConnectorError as error:
        raise AggregatorError(f"cannot connect to {url}: {error.os_error.strerror or error.os_error}") from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise AggregatorError(str(error) or type(error).__name__) from error
    except (KeyError, TypeError, ValueError) as error:
        raise AggregatorError(f"its answer is not what /v1/verdicts gives: {error!r}") from error


@functools.lru_cache(maxsize=2)
def _trusting(ca_pem: str) -> ssl.SSLContext:
    """One context as long as the authorities are the same: connections are kept by it."""
    return ssl.create_default_context(cadata=ca_pem)


def _token(path: Path) -> str:
    """The projected token, which the kubelet renews in place."""
    return path.read_text(encoding="utf-8").strip()
