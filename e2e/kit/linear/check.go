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

// Options are the optional inputs of Check.
type Options struct {
	// Applied is the log of the store behind the registers. It shows when a write without a
	// response took effect, or that it had no effect. nil means that the log is not known.
	Applied []store.Applied
	// Timeout is the maximum duration of the search in all keys together. Check fails if the
	// search takes longer. Zero means one minute.
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
		c.applied = make(map[keyValue][]store.Applied)
		for _, write := range opts.Applied {
			written := keyValue{write.Key, write.Value}
			c.applied[written] = append(c.applied[written], write)
		}
	}
	opsByKey := make(map[string][]Op)
	for _, op := range ops {
		if err := c.add(op); err != nil {
			return err
		}
		opsByKey[op.Key] = append(opsByKey[op.Key], op)
	}
	var violations []string
	for _, key := range slices.Sorted(maps.Keys(opsByKey)) {
		if err := c.checkKey(opsByKey[key]); err != nil {
			violations = append(violations, fmt.Sprintf("\n\tkey %q: %v", key, err))
		}
	}
	if len(violations) == 0 {
		return nil
	}
	printed := violations
	if len(violations) > maxPrinted {
		printed = append(violations[:maxPrinted:maxPrinted], "\n\t…")
	}
	return fmt.Errorf("linear: %d of %d keys, %d operations: %s:%s", len(violations), len(opsByKey), len(ops), history.SafetyViolated, strings.Join(printed, ""))
}

// keyValue is a key and a value that was written to it.
type keyValue struct{ key, value string }

// checker is the state of one Check.
type checker struct {
	deadline time.Time
	// writes contains all writes by value, with any outcome.
	writes map[string]Op
	// applied contains the writes in the log of the store; nil if the log is not known.
	applied map[keyValue][]store.Applied
}

// add records the value of a write, and validates any operation. It returns an error for an
// operation that a test must not contain, for example for a second write of the same value.
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

// checkKey checks the operations on one key. It returns an error if no order explains them.
func (c *checker) checkKey(ops []Op) error {
	var values registerValues
	for _, op := range ops {
		if !op.Write {
			continue
		}
		write, hadEffect, conflict := c.timeOfEffect(op)
		if conflict != "" {
			return contradiction{reason: conflict, ops: []timedOp{write}}.err()
		}
		if hadEffect {
			values.addWrite(write)
		}
	}
	for _, op := range ops {
		if op.Write || op.Outcome != Known {
			continue
		}
		if !values.addRead(timedOp{Op: op, earliest: op.Call, latest: op.Return}) {
			return c.explainUnwritten(op).err()
		}
	}
	values.dropUnreadWrites()
	if found := values.shortestContradiction(); found != nil {
		return c.confirm(found)
	}
	return c.search(values.operations())
}

// timeOfEffect returns a write with the shortest known interval in which it took effect. That is the
// time in the log of the store or, without a log, the time between call and response. hadEffect is false
// if the write had no effect. conflict describes how the result of the client contradicts the log; it is
// empty if there is no contradiction.
func (c *checker) timeOfEffect(op Op) (write timedOp, hadEffect bool, conflict string) {
	write = withClientTimes(op)
	if c.applied == nil {
		return write, op.Outcome != Refused, ""
	}
	log := c.applied[keyValue{op.Key, op.Value}]
	if len(log) == 0 {
		if op.Outcome == Known {
			conflict = "it got a response, but the store never applied it"
		}
		return write, false, conflict
	}
	appliedAt := log[0].At
	switch {
	case len(log) > 1:
		conflict = "the store applied it twice"
	case op.Outcome == Refused:
		conflict = "it was refused, but the store applied it"
	case appliedAt < write.earliest || appliedAt > write.latest:
		conflict = "the store applied it outside of the call"
	}
	write.earliest, write.latest = appliedAt, appliedAt
	return write, conflict == "", conflict
}

// explainUnwritten returns the contradiction of a read whose value no write stored in this
// register.
func (c *checker) explainUnwritten(read Op) contradiction {
	found := contradiction{reason: "no operation wrote the value that was read", ops: []timedOp{withClientTimes(read)}}
	write, ok := c.writes[read.Value]
	switch {
	case !ok:
		return found
	case write.Key != read.Key:
		found.reason = fmt.Sprintf("the value that was read was written to key %q", write.Key)
	case write.Outcome == Refused:
		found.reason = "the write of the value that was read was refused"
	default:
		found.reason = "the value that was read never reached the store"
	}
	found.ops = append(found.ops, withClientTimes(write))
	return found
}

// confirm checks a contradiction by the search, and returns it as an error. The error is different
// if the search accepts the operations, or does not end in time.
func (c *checker) confirm(found *contradiction) error {
	err := c.search(found.ops)
	switch {
	case errors.Is(err, errIllegal):
		return found.err()
	case err == nil:
		return fmt.Errorf("the search accepts what the short method rejects: %v", found)
	default:
		return fmt.Errorf("%w; the short method: %v", err, found)
	}
}
