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
	// Seq numbers the runs of one app process. The app writes a run twice under
	// the same number: when it starts, and again when it ends.
	Seq uint64 `json:"seq"`
	// App is the name of the app process, which is the node it stands behind.
	App string `json:"app"`
	// Node, Shard, Epoch and Key are what Shardway's headers said.
	Node  string `json:"node"`
	Shard uint32 `json:"shard"`
	Epoch uint64 `json:"epoch"`
	Key   string `json:"key"`
	// ID is the client's own id of the request.
	ID     string `json:"id"`
	Method string `json:"method"`
	// Start and End are readings of Now. End is 0 while the run goes on, and
	// stays 0 if the app dies first.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Cut tells that the node gave the request up before the app had answered.
	// End is then when the app noticed.
	Cut bool `json:"cut,omitempty"`
	// Stream tells that the answer is an event stream or an upgrade, which no drain
	// waits for.
	Stream bool `json:"stream,omitempty"`
	// Resumes tells that it is a leg of an event stream that another one may follow: it has
	// no grace.
	Resumes bool `json:"resumes,omitempty"`

	// asked tells that it stands for an Admission.
	asked bool
}

// end is End, or the end of time for a run that never ended.
func (r *Run) end() int64 { return orNever(r.End) }

// endsBefore takes never for a time that everything ends before.
func (r *Run) endsBefore(t int64) bool { return t == never || r.end() < t }

// maxLine bounds one line of a records file.
const maxLine = 1 << 20

// ReadRuns reads a records file: one Run a line, the last line of a number
// counts. A last line cut short by the death of its writer is dropped.
func ReadRuns(path string) ([]Run, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the caller made the file
	if err != nil {
		return nil, fmt.Errorf("history: read records: %w", err)
	}
	if i := bytes.LastIndexByte(b, '\n'); i < len(b)-1 {
		b = b[:i+1]
	}
	type place struct {
		app string
		seq uint64
	}
	var runs []Run
	at := make(map[place]int)
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r Run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("history: records in %s: %w", path, err)
		}
		p := place{r.App, r.Seq}
		if i, ok := at[p]; ok {
			runs[i] = r
			continue
		}
		at[p] = len(runs)
		runs = append(runs, r)
	}
	return runs, lines.Err()
}
