-- RayJob: jobDeploymentStatus says how far the cluster and the submission are, jobStatus what Ray says of the program.
-- Both are needed: a program that was stopped leaves jobDeploymentStatus Complete.
local status = obj.status or {}
local deployment = status.jobDeploymentStatus or ""
local message = status.message

if deployment == "Failed" or deployment == "ValidationFailed" then
  return {status = "Degraded", message = message}
end
if deployment == "Complete" then
  if status.jobStatus == "SUCCEEDED" then
    return {status = "Healthy", message = message}
  end
  return {status = "Degraded", message = message}
end
if deployment == "Suspended" or deployment == "Suspending" then
  return {status = "Suspended", message = "suspended"}
end
if deployment == "Retrying" then
  return {status = "Progressing", message = message}
end
if deployment == "" then
  return {status = "Progressing", message = "its controller has not taken it up"}
end
return {status = "Progressing", message = "running"}
