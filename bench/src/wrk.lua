-- Posts prepared bodies one after the other, each thread beginning elsewhere, and prints the
-- result as one line of JSON. The argument is the file that holds the bodies; see load.rs.

local requests = {}
local next_request = 0
local n_threads = 0

function setup(thread)
  thread:set("offset", n_threads * 389)
  n_threads = n_threads + 1
end

function init(args)
  local load = dofile(args[1])
  local headers = { ["Content-Type"] = load.content_type, ["Host"] = load.host }
  for i, body in ipairs(load.bodies) do
    requests[i] = wrk.format("POST", load.path, headers, body)
  end
  next_request = offset % #requests
end

function request()
  next_request = next_request % #requests + 1
  return requests[next_request]
end

-- utime and stime of this process in ticks, its threads included.
local function ticks()
  local file = io.open("/proc/self/stat")
  local fields = file:read("*a"):match("%) (.*)")
  file:close()
  local n, sum = 0, 0
  for field in fields:gmatch("%S+") do
    n = n + 1
    if n == 12 or n == 13 then sum = sum + tonumber(field) end
  end
  return sum
end

function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%d,"p90_us":%d,"p99_us":%d,' ..
    '"p999_us":%d,"max_us":%d,"mean_us":%.1f,"connect":%d,"read":%d,"write":%d,"status":%d,' ..
    '"timeout":%d,"ticks":%d}',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50),
    latency:percentile(90), latency:percentile(99), latency:percentile(99.9), latency.max,
    latency.mean, errors.connect, errors.read, errors.write, errors.status, errors.timeout,
    ticks()))
end
