//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// wrkScript sends requests for the keys of a file in turn, starting at a random key, and
// prints the results as JSON. Its arguments are the file, the mean pause in milliseconds,
// and "fresh" or another word. With a pause, each connection waits for a random time before
// each request, so that the connections are not synchronized. With "fresh", each request
// asks to close its connection.
const wrkScript = `
local requests, at, pause = {}, 0, 0
function init(args)
  pause = tonumber(args[2])
  local headers = {["Host"] = wrk.host, ["User-Agent"] = "wrk", ["Accept"] = "*/*"}
  if args[3] == "fresh" then headers["Connection"] = "close" end
  for key in io.lines(args[1]) do
    headers["X-Shard-Key"] = key
    requests[#requests + 1] = wrk.format("GET", nil, headers)
  end
  math.randomseed(os.time())
  at = math.random(#requests)
  if pause == 0 then delay = nil end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function delay() return math.random(0, 2 * pause) end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('{"requests":%d,"micros":%d,"p50":%d,"p99":%d,"errors":%d}\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`

// wrk contains the parameters of one run of the load generator wrk.
type wrk struct {
	script, target, keys string
	c                    testCase
	time                 time.Duration
}

// wrkDone is the output of the script.
type wrkDone struct {
	Requests, Micros, P50, P99, Errors int64
}

// run runs wrk. A single failed request makes the run invalid.
func (w wrk) run(ctx context.Context) (wrkDone, error) {
	pause := 0
	if w.c.rate > 0 {
		pause = w.c.conns * 1000 / w.c.rate
	}
	scheme, life := "http", "kept"
	if w.c.tls {
		scheme = "https"
	}
	if w.c.fresh {
		life = "fresh"
	}
	ctx, cancel := context.WithTimeout(ctx, w.time+startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(w.c.conns), //nolint:gosec // arguments of our own
		"-d"+strconv.Itoa(int(w.time/time.Second))+"s", "-s", w.script,
		fmt.Sprintf("%s://%s/%d", scheme, w.target, w.c.size), "--", w.keys, strconv.Itoa(pause), life)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return wrkDone{}, fmt.Errorf("bench: wrk: %w\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var done wrkDone
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &done); err != nil {
		return wrkDone{}, fmt.Errorf("bench: wrk: %w\n%s", err, out)
	}
	if done.Errors > 0 || done.Requests == 0 {
		return wrkDone{}, errors.New("bench: requests failed\n" + string(out))
	}
	return done, nil
}

// script writes wrkScript into a file and returns its path.
func (b *benchRun) script() (string, error) { return b.write("wrk.lua", wrkScript) }
