//go:build linux

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"shardway/e2e/kit/history"
)

// records follows the records file of one app process, so that a long test reads each
// line once. The last line with a number replaces earlier ones. An incomplete last line
// is read later, or never if its writer is dead.
type records struct {
	path       string
	offset     int64
	runs       []history.Run
	indexBySeq map[uint64]int // indexes in runs by Run.Seq
}

func newRecords(path string) *records {
	return &records{path: path, indexBySeq: make(map[uint64]int)}
}

// read reads what was written since the last call.
func (r *records) read() error {
	file, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the app has not written yet
	}
	if err != nil {
		return fmt.Errorf("cluster: records: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.NewSectionReader(file, r.offset, 1<<62))
	if err != nil {
		return fmt.Errorf("cluster: records: %w", err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	r.offset += int64(len(data))
	for line := range bytes.Lines(data) {
		var run history.Run
		if err := json.Unmarshal(line, &run); err != nil {
			return fmt.Errorf("cluster: records in %s: %w", r.path, err)
		}
		if i, ok := r.indexBySeq[run.Seq]; ok {
			r.runs[i] = run
			continue
		}
		r.indexBySeq[run.Seq] = len(r.runs)
		r.runs = append(r.runs, run)
	}
	return nil
}
