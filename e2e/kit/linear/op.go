//go:build linux

package linear

import (
	"fmt"
	"math"
	"strings"

	"shardway/e2e/kit/history"
)

// Outcome is what the client of an operation knows about its effect.
type Outcome int

// The outcomes.
const (
	// Known means that the operation took effect between its call and its return.
	Known Outcome = iota + 1
	// Unknown means that the client got no response. A write may have taken effect at any time
	// after its call, may still take effect, or may noReturn do so. A read contains no information.
	Unknown
	// Refused means that the operation certainly had no effect, and noReturn will.
	Refused
)

// String returns the name of the outcome.
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

// noReturn is the return time of an operation without a response.
const noReturn = math.MaxInt64

// Op is an operation on the register of a key.
type Op struct {
	Key   string
	Write bool
	// Value is the written value, or the value that a read with a known outcome returned. Written values
	// are unique and not empty. Empty is the value of a register before its first write.
	Value string
	// Call is when the client sent the request, and Return when it received the response: timestamps
	// from history.Now. Return is ignored for an operation with the outcome Unknown.
	Call, Return int64
	Outcome      Outcome
	// ID is the request ID, and Runs are the executions of the request in apps. Both are only
	// printed in a counterexample.
	ID   string
	Runs []history.Run
}

// Ops returns the register operations of the requests with the header App-Register. It omits
// operations without information: reads without a response, and writes without a response
// that ran in no app. runs must contain all runs of these requests, because a missing run would
// hide a write that took effect.
func Ops(responses []history.Response, runs []history.Run) []Op {
	runsByID := make(map[string][]history.Run)
	for _, run := range runs {
		runsByID[run.ID] = append(runsByID[run.ID], run)
	}
	var ops []Op
	for i := range responses {
		resp := &responses[i]
		if resp.Register == "" || len(resp.Attempts) == 0 {
			continue
		}
		op := Op{
			Key: resp.Key, Write: !resp.Safe(), Value: resp.WrittenValue, Call: resp.SentAt(), Return: resp.DoneAt(),
			Outcome: outcomeOf(resp), ID: resp.ID, Runs: runsByID[resp.ID],
		}
		if !op.Write {
			// Only the last attempt received a response, so the value was read after its start.
			op.Value, op.Call = resp.Value, resp.Attempts[len(resp.Attempts)-1].Sent
		}
		if op.Outcome == Unknown && (!op.Write || len(op.Runs) == 0) {
			continue
		}
		ops = append(ops, op)
	}
	return ops
}

// outcomeOf returns what the response says about the effect of its request.
func outcomeOf(resp *history.Response) Outcome {
	switch {
	case resp.OK() && resp.EchoID == resp.ID:
		return Known
	case resp.Fenced():
		return Refused
	default:
		return Unknown
	}
}

// String returns the operation in one line.
func (o Op) String() string {
	var text strings.Builder
	if o.Write {
		fmt.Fprintf(&text, "write %q", o.Value)
	} else {
		fmt.Fprintf(&text, "read %q", o.Value)
	}
	if o.Outcome != Known {
		fmt.Fprintf(&text, ", %s", o.Outcome)
	}
	if o.ID != "" {
		fmt.Fprintf(&text, " (%s)", o.ID)
	}
	for _, run := range o.Runs {
		fmt.Fprintf(&text, " at %s, shard %d epoch %d", run.App, run.Shard, run.Epoch)
		if run.Aborted {
			text.WriteString(", aborted")
		}
	}
	return text.String()
}
