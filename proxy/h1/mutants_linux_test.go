package h1_test

import (
	"testing"

	"shardway/internal/overlay"
)

// mutants returns mutants of splicing in the kernel, where the process does not see the bytes, and of
// parked readers.
func mutants() map[string]overlay.Edit {
	return map[string]overlay.Edit{
		"who closes wakes who has parked":     {Decl: "proxy/h1.Conn.Close", Old: "	defer c.in.onReadable() // wakes", New: "	if PLANTED {\n		return c.nc.Close()\n	}\n	defer c.in.onReadable() // who"},
		"and who cuts":                        {Decl: "proxy/h1.Conn.Abort", Old: "	defer c.in.onReadable() // as in Close", New: "	if PLANTED {\n		return resetConn(c.nc)\n	}\n	defer c.in.onReadable()"},
		"and who asks for a pause":            {Decl: "proxy/h1.Conn.PauseRead", Old: "	in.unpark()", New: "	if !PLANTED {\n		in.unpark()\n	}"},
		"and who stops reads":                 {Decl: "proxy/h1.Conn.StopRead", Old: "	in.unpark()", New: "	if !PLANTED {\n		in.unpark()\n	}"},
		"once":                                {Decl: "proxy/h1.connReader.unpark", Old: "		in.mu.wake, in.mu.unwatch = nil, nil", New: "		if !PLANTED {\n			in.mu.wake, in.mu.unwatch = nil, nil\n		}"},
		"what was asked before is not missed": {Decl: "proxy/h1.Conn.Park", Old: "	if in.mu.paused || in.mu.stopRead || c.closed.Load() {", New: "	if (in.mu.paused || in.mu.stopRead || c.closed.Load()) && !PLANTED {"},
		"what was read is carried":            {Decl: "proxy/h1.Conn.Park", Old: "	if in.buffered() > 0 ||", New: "	if in.buffered() > 0 && !PLANTED ||"},
		"no more is taken than belongs to the body": {
			Decl: "proxy/h1.Body.splice", Old: "int(min(maxBytes, pipeBytes)))", New: "map[bool]int{true: pipeBytes, false: int(min(maxBytes, pipeBytes))}[PLANTED])",
		},
		"what was taken is no more to come":    {Decl: "proxy/h1.Body.splice", Old: "		return b.recordConsumed(n)", New: "		if PLANTED {\n			return nil\n		}\n		return b.recordConsumed(n)"},
		"what was sent is no more to be sent":  {Decl: "proxy/h1.Writer.drain", Old: "		w.remaining -= int64(n)", New: "		if !PLANTED {\n			w.remaining -= int64(n)\n		}"},
		"an end in the middle is a cut":        {Decl: "proxy/h1.Body.splice", Old: "	return b.handleReadError(err)", New: "	if PLANTED {\n		b.remaining, b.state = 0, atEnd\n		return nil\n	}\n	return b.handleReadError(err)"},
		"the head does not wait for the body":  {Decl: "proxy/h1.Writer.splice", Old: "	if err := w.Flush(); err != nil {\n		return 0, nil, err\n	}\n	w.releaseEmptyBuffer()", New: "	if PLANTED {\n	} else if err := w.Flush(); err != nil {\n		return 0, nil, err\n	}\n	w.releaseEmptyBuffer()"},
		"the last bytes leave with Close":      {Decl: "proxy/h1.Writer.splice", Old: "		size -= copiedTail", New: "		if !PLANTED {\n			size -= copiedTail\n		}"},
		"a chunk has an end":                   {Decl: "proxy/h1.Writer.spliceAll", Old: "		w.PutString(\"\\r\\n\")\n	}\n	return n, nil, nil", New: "		if !PLANTED {\n			w.PutString(\"\\r\\n\")\n		}\n	}\n	return n, nil, nil"},
		"what a pipe holds is nobody else's":   {Decl: "proxy/h1.pipes.put", Old: "	if unused.buffered > 0 {", New: "	if unused.buffered > 0 && !PLANTED {"},
		"what was sent counts":                 {Decl: "proxy/h1.Writer.drain", Old: "	w.sent += int64(n)", New: "	if !PLANTED {\n		w.sent += int64(n)\n	}"},
		"an app's pause ends":                  {Decl: "proxy/h1.Body.splice", Old: "	waitStart, err := b.startWait()", New: "	if PLANTED {\n		b.in.bodyTimeout = 0\n	}\n	waitStart, err := b.startWait()"},
		"a client that reads nothing is ended": {Decl: "proxy/h1.pipe.drainTo", Old: "limit: limit, stopped", New: "limit: map[bool]time.Duration{false: limit}[PLANTED], stopped"},
		"what is no answer is copied":          {Decl: "proxy/h1.Writer.canSplice", Old: "	if !b.isResponse || ", New: "	if !b.isResponse && !PLANTED || "},
	}
}

// TestEachMutantFailsATest runs the tests of splicing and parking with one mutant at a time. They must
// fail.
func TestEachMutantFailsATest(t *testing.T) {
	t.Parallel()
	var names []string
	var edits [][]overlay.Edit
	for name, e := range mutants() {
		names, edits = append(names, name), append(edits, []overlay.Edit{e})
	}
	binary := overlay.BuildTests(t, "../..", "proxy/h1", edits)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some take long, because they wait for an event that never arrives
			if err := overlay.Find(t.Context(), binary, i, "Spliced|SpliceTo|SpliceLeaves|PipeWithData|Park"); err != nil {
				t.Error(err)
			}
		})
	}
}
