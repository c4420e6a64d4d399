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
	// Unknown means that a write has no response. It took effect at any time after its call, or
	// still will, or never does. An unknown read has no information.
	Unknown
	// Refused means that the operation certainly had no effect, and never will.
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

// never is the return time of an operation with an unknown end.
const never = math.MaxInt64

// Op is an operation on the register of a key.
type Op struct {
	Key   string
	Write bool
	// Value is the written value, or the value that a known read returned. Written values
	// are unique and not empty. Empty is the value of a register before its first write.
	Value string
	// Call and Return are values of history.Now at the client. Return is ignored for an
	// unknown operation.
	Call, Return int64
	Outcome      Outcome
	// ID and Runs are printed in a counterexample, and not used otherwise.
	ID   string
	Runs []history.Run
}

// Ops converts the responses to requests with App-Register to operations. It omits
// operations without information: reads without a response, and writes without a response
// that ran in no app. The runs must be complete.
func Ops(responses []history.Response, runs []history.Run) []Op {
	ran := make(map[string][]history.Run)
	for _, run := range runs {
		ran[run.ID] = append(ran[run.ID], run)
	}
	var ops []Op
	for i := range responses {
		resp := &responses[i]
		if resp.Register == "" || len(resp.Attempts) == 0 {
			continue
		}
		op := Op{
			Key: resp.Key, Write: !resp.Safe(), Value: resp.Wrote, Call: resp.Sent(), Return: resp.Done(),
			Outcome: outcome(resp), ID: resp.ID, Runs: ran[resp.ID],
		}
		if !op.Write {
			// An attempt without a response has no influence on the read value.
			op.Value, op.Call = resp.Value, resp.Attempts[len(resp.Attempts)-1].Sent
		}
		if op.Outcome == Unknown && (!op.Write || len(op.Runs) == 0) {
			continue
		}
		ops = append(ops, op)
	}
	return ops
}

func outcome(resp *history.Response) Outcome {
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
