package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Run is one execution of a request in an app.
type Run struct {
	// Seq numbers the runs of one app process. The app writes each run twice with the
	// same number: at its start and at its end.
	Seq uint64 `json:"seq"`
	// App is the name of the app process: the ID of its node, or NODE/INSTANCE for the second and
	// each further app instance of a node.
	App string `json:"app"`
	// Node, Shard, Epoch and Key are the values of the Shardway headers.
	Node  string `json:"node"`
	Shard uint32 `json:"shard"`
	Epoch uint64 `json:"epoch"`
	Key   string `json:"key"`
	// Service is the Shardway-Service header, which exists only in clusters with several services.
	Service string `json:"service,omitempty"`
	// ID is the request ID that the client chose.
	ID     string `json:"id"`
	Method string `json:"method"`
	// Start and End are values of Now. End is 0 while the run continues, and stays 0 if
	// the app dies first.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Aborted reports whether the node aborted the request before the app had responded.
	// End is then when the app noticed.
	Aborted bool `json:"aborted,omitempty"`
	// Stream reports whether the response is an event stream or an upgrade. No drain
	// waits for it.
	Stream bool `json:"stream,omitempty"`
	// Resumes reports whether the run is one upstream connection of a resumable event
	// stream, which has no grace period.
	Resumes bool `json:"resumes,omitempty"`

	// fromAdmission means that the run stands for an Admission: an interval in which a node admitted
	// requests for a shard, instead of one request that an app has executed.
	fromAdmission bool
}

// end returns End, or never for a run that has not ended.
func (r *Run) end() int64 { return orNever(r.End) }

// endsBefore reports whether the run ended before at. Every run ends before never.
func (r *Run) endsBefore(at int64) bool { return at == never || r.end() < at }

// maxLine is the maximum length of a line of a records file, in bytes.
const maxLine = 1 << 20

// ReadRuns reads a records file, which contains one Run per line. The last line with a
// number replaces earlier ones. An incomplete last line, left by a process that died, is
// ignored.
func ReadRuns(path string) ([]Run, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the caller made the file
	if err != nil {
		return nil, fmt.Errorf("history: read records: %w", err)
	}
	if i := bytes.LastIndexByte(data, '\n'); i < len(data)-1 {
		data = data[:i+1]
	}
	type runID struct {
		app string
		seq uint64
	}
	var runs []Run
	index := make(map[runID]int)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var run Run
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			return nil, fmt.Errorf("history: records in %s: %w", path, err)
		}
		id := runID{run.App, run.Seq}
		if i, ok := index[id]; ok {
			runs[i] = run
			continue
		}
		index[id] = len(runs)
		runs = append(runs, run)
	}
	return runs, lines.Err()
}
