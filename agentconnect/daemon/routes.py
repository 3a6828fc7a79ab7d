"""The table of routes: what is served, and what the OpenAPI document says of it (§2.1)."""

from collections.abc import Mapping

import msgspec

from agentconnect.daemon import shapes
from agentconnect.daemon.asking import Answer, Asked, Handler
from agentconnect.daemon.handlers import Handlers
from agentconnect.daemon.hooks import Hooks

_EDGE = (401, 403, 413, 503)
_JSON = (400, 415)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. ``does`` names the handler's method."""

    method: str
    path: str
    does: str
    summary: str
    status: int = 200
    takes: type[msgspec.Struct] | None = None
    gives: type[msgspec.Struct] | None = None
    refuses: tuple[int, ...] = ()
    bearer: bool = True
    optional_body: bool = False

    @property
    def statuses(self) -> tuple[int, ...]:
        """All refusals that are possible."""
        body = _JSON if self.takes is not None else ()
        named = (400, 404) if "{workspace}" in self.path else ()
        return tuple(sorted({*_EDGE, *body, *named, *self.refuses, 500}))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/health",
        does="health",
        summary="Whether it lives",
        gives=shapes.HealthAnswer,
        bearer=False,
    ),
    Route(
        method="GET",
        path="/capabilities",
        does="capabilities",
        summary="What the protocol offers",
        gives=shapes.CapabilitiesAnswer,
    ),
    Route(method="GET", path="/openapi.json", does="openapi", summary="This document"),
    *(
        Route(
            method="POST",
            path=path,
            does="notify",
            summary="Send a text to one place, once",
            takes=shapes.NotifyBody,
            gives=shapes.NotifyAnswer,
            refuses=(502, 504),
        )
        for path in ("/workspace/notify", "/workspaces/{workspace}/notify")
    ),
    Route(
        method="POST",
        path="/session",
        does="open_session",
        summary="Open a session",
        status=201,
        takes=shapes.SessionBody,
        gives=shapes.SessionAnswer,
        optional_body=True,
    ),
    Route(
        method="DELETE",
        path="/session/{session}",
        does="close_session",
        summary="Close a session",
        status=204,
        refuses=(404,),
    ),
    Route(
        method="POST",
        path="/session/{session}/prompt",
        does="prompt",
        summary="Queue a prompt",
        status=202,
        takes=shapes.PromptBody,
        gives=shapes.PromptAnswer,
        refuses=(404,),
    ),
    Route(
        method="POST",
        path="/session/{session}/cancel",
        does="cancel",
        summary="Stop the running prompt",
        status=204,
        refuses=(404,),
    ),
    Route(
        method="GET",
        path="/session/{session}/events",
        does="events",
        summary="Events as they come, replayed from after Last-Event-ID",
        refuses=(404,),
    ),
    *(
        route
        for prefix in ("", "/workspaces/{workspace}")
        for route in (
            Route(
                method="GET",
                path=f"{prefix}/scheduled-tasks",
                does="tasks",
                summary="All scheduled tasks",
                gives=shapes.TasksAnswer,
            ),
            Route(
                method="POST",
                path=f"{prefix}/scheduled-tasks",
                does="add_task",
                summary="Add a scheduled task",
                status=201,
                takes=shapes.TaskBody,
                gives=shapes.TaskAnswer,
                refuses=(409,),
            ),
            Route(
                method="PATCH",
                path=f"{prefix}/scheduled-tasks/{{task}}",
                does="patch_task",
                summary="Change a scheduled task",
                takes=shapes.TaskPatchBody,
                gives=shapes.TaskAnswer,
                refuses=(404,),
            ),
            Route(
                method="DELETE",
                path=f"{prefix}/scheduled-tasks/{{task}}",
                does="remove_task",
                summary="Remove a scheduled task",
                gives=shapes.RemovedAnswer,
                refuses=(404,),
            ),
            Route(
                method="POST",
                path=f"{prefix}/scheduled-tasks/{{task}}/run",
                does="run_task",
                summary="Fire a scheduled task now",
                status=202,
                gives=shapes.FiredAnswer,
                refuses=(404, 409),
            ),
        )
    ),
    Route(
        method="POST",
        path="/channels/{channel}/webhooks/{source}",
        does="webhook",
        summary="Report an event; its own secret instead of the bearer",
        status=202,
        takes=shapes.HookBody,
        gives=shapes.HookAnswer,
        refuses=(404,),
        bearer=False,
    ),
)


def table(
    handlers: Handlers, hooks: Hooks, document: bytes
) -> list[tuple[str, Mapping[str, Handler]]]:
    """The routes with what they do, a row for each path."""

    async def openapi(_asked: Asked) -> Answer:
        return Answer(status=200, body=document)

    others: dict[str, Handler] = {"openapi": openapi, "webhook": hooks.accept}
    found: dict[str, dict[str, Handler]] = {}
    for route in ROUTES:
        does = others.get(route.does) or getattr(handlers, route.does)
        found.setdefault(route.path, {})[route.method] = does
    return list(found.items())
