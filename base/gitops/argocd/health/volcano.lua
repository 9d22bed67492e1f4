-- Volcano's Job: one phase says it all. Aborted is how Volcano suspends a job: it can be resumed.
local state = (obj.status or {}).state
if not state then
  return {status = "Progressing", message = "its controller has not taken it up"}
end
local health = {
  Aborting = "Suspended",
  Aborted = "Suspended",
  Completed = "Healthy",
  Terminating = "Degraded",
  Terminated = "Degraded",
  Failed = "Degraded",
}
return {status = health[state.phase] or "Progressing", message = state.message or state.phase}
