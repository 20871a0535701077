-- For wrk: posts the bodies of a file, one a line, in turn, and prints a line of JSON at the end.
-- Arguments: the file; the mean pause of a connection before each request in milliseconds, 0 for none.

local bodies, turn, pause = {}, 0, 0

function init(arguments)
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   for line in io.lines(arguments[1]) do
      bodies[#bodies + 1] = wrk.format(nil, nil, nil, line)
   end
   pause = tonumber(arguments[2])
   math.randomseed(1)
   -- wrk waits before a request only where there is a function to ask for how long.
   if pause > 0 then
      function delay() return math.floor(-pause * math.log(1 - math.random()) + 0.5) end
   end
end

function request()
   turn = turn % #bodies + 1
   return bodies[turn]
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      'RESULT {"requests": %d, "seconds": %.6f, "bytes": %d, "mean_ms": %.3f, "p50_ms": %.3f, "p90_ms": %.3f, ' ..
      '"p95_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f, "failed": %d}\n',
      summary.requests, summary.duration / 1e6, summary.bytes, latency.mean / 1e3, latency:percentile(50) / 1e3,
      latency:percentile(90) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
