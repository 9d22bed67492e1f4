-- Job, JobSet, TrainJob, PyTorchJob, TFJob and MPIJob: all of them say how they end, and that they are suspended, in
-- conditions. A condition that is not True counts for nothing: Suspended=False is what a queue leaves on a running job.
local status = obj.status or {}
local is = {}
for _, condition in ipairs(status.conditions or {}) do
  if condition.status == "True" then
    is[condition.type] = condition
  end
end

if is.Failed then
  return {status = "Degraded", message = is.Failed.message}
end
local done = is.Complete or is.Completed or is.Succeeded
if done then
  return {status = "Healthy", message = done.message}
end
if is.Suspended then
  return {status = "Suspended", message = is.Suspended.message}
end
local again = is.Restarting or is.RestartingJobSet
if again then
  return {status = "Progressing", message = again.message}
end
if (status.failed or 0) > 0 then
  return {status = "Progressing", message = "running, after " .. status.failed .. " failed pods"}
end
if (status.restarts or 0) > 0 then
  return {status = "Progressing", message = "running, after " .. status.restarts .. " restarts"}
end
if not obj.status or (status.startTime == nil and status.replicatedJobsStatus == nil and status.jobsStatus == nil) then
  return {status = "Progressing", message = "its controller has not taken it up"}
end
return {status = "Progressing", message = "running"}
