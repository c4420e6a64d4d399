//go:build linux

package linear

import (
	"fmt"
	"math"
	"strings"

	"shardway/e2e/kit/history"
)

// Outcome is what the client of an operation knows about it.
type Outcome int

// The outcomes.
const (
	// Known: it was done between its call and its return.
	Known Outcome = iota + 1
	// Unknown: a write without an answer. It took effect at any time after its
	// call, or will, or never does. An unknown read tells nothing.
	Unknown
	// Refused: it was certainly not done, and never will be.
	Refused
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Known:
		return "known"
	case Unknown:
		return "unknown"
	case Refused:
		return "refused"
	default:
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
}

// never is when an operation returns that nobody knows the end of.
const never = math.MaxInt64

// Op is one operation on the register of a key.
type Op struct {
	Key   string
	Write bool
	// Value is what was written, or what a known read returned. Writes are
	// unique and not empty; empty is what a register holds before its first.
	Value string
	// Call and Return are readings of history.Now at the client. The return of
	// an unknown operation does not count.
	Call, Return int64
	Outcome      Outcome
	// ID and Runs say in a counterexample who did it, nothing else.
	ID   string
	Runs []history.Run
}

// Ops makes operations of the answers to requests with App-Register. Left out is
// what tells nothing: reads without an answer, and writes without one that ran in
// no app. The runs must be complete.
func Ops(answers []history.Response, runs []history.Run) []Op {
	ran := make(map[string][]history.Run)
	for _, run := range runs {
		ran[run.ID] = append(ran[run.ID], run)
	}
	var ops []Op
	for i := range answers {
		a := &answers[i]
		if a.Register == "" || len(a.Attempts) == 0 {
			continue
		}
		op := Op{
			Key: a.Key, Write: !a.Safe(), Value: a.Wrote, Call: a.Sent(), Return: a.Done(),
			Outcome: outcome(a), ID: a.ID, Runs: ran[a.ID],
		}
		if !op.Write {
			// An attempt without an answer has no part in what was read.
			op.Value, op.Call = a.Value, a.Attempts[len(a.Attempts)-1].Sent
		}
		if op.Outcome == Unknown && (!op.Write || len(op.Runs) == 0) {
			continue
		}
		ops = append(ops, op)
	}
	return ops
}

func outcome(a *history.Response) Outcome {
	switch {
	case a.OK() && a.EchoID == a.ID:
		return Known
	case a.Fenced():
		return Refused
	default:
		return Unknown
	}
}

// String is the operation in one line.
func (o Op) String() string {
	var b strings.Builder
	if o.Write {
		fmt.Fprintf(&b, "write %q", o.Value)
	} else {
		fmt.Fprintf(&b, "read %q", o.Value)
	}
	if o.Outcome != Known {
		fmt.Fprintf(&b, ", %s", o.Outcome)
	}
	if o.ID != "" {
		fmt.Fprintf(&b, " (%s)", o.ID)
	}
	for _, run := range o.Runs {
		fmt.Fprintf(&b, " at %s, shard %d epoch %d", run.App, run.Shard, run.Epoch)
		if run.Aborted {
			b.WriteString(", cut")
		}
	}
	return b.String()
}
