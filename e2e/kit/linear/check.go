//go:build linux

package linear

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/store"
)

// maxPrinted is the maximum number of contradictions in an error text.
const maxPrinted = 5

// Options are further inputs of Check.
type Options struct {
	// Applied is the log of the store behind the registers; nil means that it is not
	// known. With the log, the effect of a write without a response is known.
	Applied []store.Applied
	// Timeout limits the search in all keys together. A longer check fails. 0 means one
	// minute.
	Timeout time.Duration
}

// Check returns nil if the operations on each key are linearizable. Otherwise the error
// contains the shortest contradiction of each key.
func Check(ops []Op, opts Options) error {
	c := &checker{
		deadline: time.Now().Add(cmp.Or(opts.Timeout, time.Minute)),
		writes:   make(map[string]Op),
	}
	if opts.Applied != nil {
		c.applied = make(map[location][]store.Applied)
		for _, write := range opts.Applied {
			at := location{write.Key, write.Value}
			c.applied[at] = append(c.applied[at], write)
		}
	}
	keys := make(map[string][]Op)
	for _, op := range ops {
		if err := c.add(op); err != nil {
			return err
		}
		keys[op.Key] = append(keys[op.Key], op)
	}
	var text strings.Builder
	bad := 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := c.checkKey(keys[key]); err != nil {
			if bad++; bad <= maxPrinted {
				fmt.Fprintf(&text, "\n\tkey %q: %v", key, err)
			}
		}
	}
	if bad > maxPrinted {
		text.WriteString("\n\t…")
	}
	if bad > 0 {
		return fmt.Errorf("linear: %d of %d keys, %d operations: %s:%s", bad, len(keys), len(ops), history.SafetyViolated, &text)
	}
	return nil
}

// location is a key and a value written to it.
type location struct{ key, value string }

// checker is the state of one Check.
type checker struct {
	deadline time.Time
	// writes contains all writes by value, with any outcome.
	writes map[string]Op
	// applied is the log of the store; nil if it is not known.
	applied map[location][]store.Applied
}

// add validates an operation. It returns an error if a test must not contain the
// operation.
func (c *checker) add(op Op) error {
	switch {
	case op.Outcome < Known || op.Outcome > Refused:
		return fmt.Errorf("linear: key %q: %v: no such outcome", op.Key, op)
	case op.Outcome == Known && op.Return < op.Call:
		return fmt.Errorf("linear: key %q: %v returned before it was called", op.Key, op)
	case op.Write && op.Value == "":
		return fmt.Errorf("linear: key %q: %v: a write must not have an empty value", op.Key, op)
	case op.Write:
		if other, ok := c.writes[op.Value]; ok {
			return fmt.Errorf("linear: %v and %v: values must be unique", other, op)
		}
		c.writes[op.Value] = op
	}
	return nil
}

// checkKey checks the operations on one key.
func (c *checker) checkKey(ops []Op) error {
	var values lifetimes
	for _, op := range ops {
		if !op.Write {
			continue
		}
		s, done, why := c.settle(op)
		if why != "" {
			return contradiction{why: why, ops: []settled{s}}.err()
		}
		if done {
			values.write(s)
		}
	}
	for _, op := range ops {
		if op.Write || op.Outcome != Known {
			continue
		}
		if !values.read(settled{Op: op, from: op.Call, until: op.Return}) {
			return c.unwritten(op).err()
		}
	}
	values.dropUnread()
	if bad := values.contradiction(); bad != nil {
		return c.confirm(bad)
	}
	return c.search(values.operations())
}

// settle returns the interval in which a write took effect, as narrow as possible. done
// is false if it had no effect. why, if not empty, is its contradiction to the log of the
// store.
func (c *checker) settle(op Op) (s settled, done bool, why string) {
	s = unsettled(op)
	if op.Outcome == Refused && c.applied == nil {
		return s, false, ""
	}
	if c.applied == nil {
		return s, true, ""
	}
	log := c.applied[location{op.Key, op.Value}]
	switch {
	case len(log) > 1:
		why = "the store applied it twice"
	case len(log) == 0 && op.Outcome == Known:
		why = "it got a response, but the store never applied it"
	case len(log) == 0:
		return s, false, ""
	case op.Outcome == Refused:
		why = "it was refused, but the store applied it"
	case log[0].At < s.from || log[0].At > s.until:
		why = "the store applied it outside of the call"
	}
	if len(log) > 0 {
		s.from, s.until = log[0].At, log[0].At
	}
	return s, why == "", why
}

// unwritten explains a read of a value that was not written to this register.
func (c *checker) unwritten(read Op) contradiction {
	bad := contradiction{why: "no operation wrote the value that was read", ops: []settled{unsettled(read)}}
	w, ok := c.writes[read.Value]
	switch {
	case !ok:
		return bad
	case w.Key != read.Key:
		bad.why = fmt.Sprintf("the value that was read was written to key %q", w.Key)
	case w.Outcome == Refused:
		bad.why = "the write of the value that was read was refused"
	default:
		bad.why = "the value that was read never reached the store"
	}
	bad.ops = append(bad.ops, unsettled(w))
	return bad
}

// confirm confirms a contradiction by the search.
func (c *checker) confirm(bad *contradiction) error {
	err := c.search(bad.ops)
	switch {
	case errors.Is(err, errIllegal):
		return bad.err()
	case err == nil:
		return fmt.Errorf("the search accepts what the short method rejects: %v", bad)
	default:
		return fmt.Errorf("%w; the short method: %v", err, bad)
	}
}
