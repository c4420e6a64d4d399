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

// wrkRun contains the parameters of one run of the load generator wrk.
type wrkRun struct {
	script, target, keys string
	testCase             testCase
	duration             time.Duration
}

// wrkResult is the output of the script.
type wrkResult struct {
	Requests, Micros, P50, P99, Errors int64
}

// run runs wrk. A single failed request makes the run invalid.
func (w wrkRun) run(ctx context.Context) (wrkResult, error) {
	pause := 0
	if w.testCase.rate > 0 {
		pause = w.testCase.conns * 1000 / w.testCase.rate
	}
	scheme, connMode := "http", "kept"
	if w.testCase.usesTLS {
		scheme = "https"
	}
	if w.testCase.newConns {
		connMode = "fresh"
	}
	ctx, cancel := context.WithTimeout(ctx, w.duration+startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(w.testCase.conns), //nolint:gosec // arguments of our own
		"-d"+strconv.Itoa(int(w.duration/time.Second))+"s", "-s", w.script,
		fmt.Sprintf("%s://%s/%d", scheme, w.target, w.testCase.size), "--", w.keys, strconv.Itoa(pause), connMode)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return wrkResult{}, fmt.Errorf("bench: wrk: %w\n%s", err, output)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	var parsed wrkResult
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &parsed); err != nil {
		return wrkResult{}, fmt.Errorf("bench: wrk: %w\n%s", err, output)
	}
	if parsed.Errors > 0 || parsed.Requests == 0 {
		return wrkResult{}, errors.New("bench: requests failed\n" + string(output))
	}
	return parsed, nil
}

// writeScript writes wrkScript into a file and returns its path.
func (b *benchRun) writeScript() (string, error) { return b.writeFile("wrk.lua", wrkScript) }
