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

// shown bounds how many contradictions an error prints.
const shown = 5

// Options are what a test knows beside the operations.
type Options struct {
	// Applied is the log of the store behind the registers; nil: not known. With
	// it a write without an answer was done or was not.
	Applied []store.Applied
	// Timeout bounds the search in all keys. A check that takes longer fails. 0
	// is a minute.
	Timeout time.Duration
}

// Check is nil if the operations on each key are linearizable; else it tells, for
// each key, the shortest contradiction.
func Check(ops []Op, o Options) error {
	c := &checker{
		deadline: time.Now().Add(cmp.Or(o.Timeout, time.Minute)),
		writes:   make(map[string]Op),
	}
	if o.Applied != nil {
		c.applied = make(map[place][]store.Applied)
		for _, a := range o.Applied {
			at := place{a.Key, a.Value}
			c.applied[at] = append(c.applied[at], a)
		}
	}
	keys := make(map[string][]Op)
	for _, op := range ops {
		if err := c.admit(op); err != nil {
			return err
		}
		keys[op.Key] = append(keys[op.Key], op)
	}
	var b strings.Builder
	bad := 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := c.key(keys[key]); err != nil {
			if bad++; bad <= shown {
				fmt.Fprintf(&b, "\n\tkey %q: %v", key, err)
			}
		}
	}
	if bad > shown {
		b.WriteString("\n\t…")
	}
	if bad > 0 {
		return fmt.Errorf("register: %d of %d keys, %d operations: %s:%s", bad, len(keys), len(ops), history.SafetyViolated, &b)
	}
	return nil
}

// place is where a value was written.
type place struct{ key, value string }

// checker is what one Check knows.
type checker struct {
	deadline time.Time
	// writes are all writes by value, whatever became of them.
	writes map[string]Op
	// applied is the log of the store, nil if it is not known.
	applied map[place][]store.Applied
}

// admit refuses what no test should ask about.
func (c *checker) admit(op Op) error {
	switch {
	case op.Outcome < Known || op.Outcome > Refused:
		return fmt.Errorf("register: key %q: %v: no such outcome", op.Key, op)
	case op.Outcome == Known && op.Return < op.Call:
		return fmt.Errorf("register: key %q: %v returned before it was called", op.Key, op)
	case op.Write && op.Value == "":
		return fmt.Errorf("register: key %q: %v: an empty value is what nobody wrote", op.Key, op)
	case op.Write:
		if other, ok := c.writes[op.Value]; ok {
			return fmt.Errorf("register: %v and %v: values must be unique", other, op)
		}
		c.writes[op.Value] = op
	}
	return nil
}

// key judges the operations on one key.
func (c *checker) key(ops []Op) error {
	var lives lives
	for _, op := range ops {
		if !op.Write {
			continue
		}
		s, done, why := c.settle(op)
		if why != "" {
			return contradiction{why: why, ops: []settled{s}}.err()
		}
		if done {
			lives.write(s)
		}
	}
	for _, op := range ops {
		if op.Write || op.Outcome != Known {
			continue
		}
		if !lives.read(settled{Op: op, from: op.Call, until: op.Return}) {
			return c.unwritten(op).err()
		}
	}
	lives.forget()
	if bad := lives.contradiction(); bad != nil {
		return c.witness(bad)
	}
	return c.search(lives.all())
}

// settle says when a write took effect, as closely as is known. done is false if
// it never did. why, if not empty, says how it contradicts the store's log.
func (c *checker) settle(op Op) (s settled, done bool, why string) {
	s = unsettled(op)
	if op.Outcome == Refused && c.applied == nil {
		return s, false, ""
	}
	if c.applied == nil {
		return s, true, ""
	}
	log := c.applied[place{op.Key, op.Value}]
	switch {
	case len(log) > 1:
		why = "the store applied it twice"
	case len(log) == 0 && op.Outcome == Known:
		why = "it was answered, and the store never applied it"
	case len(log) == 0:
		return s, false, ""
	case op.Outcome == Refused:
		why = "it was refused, and the store applied it"
	case log[0].At < s.from || log[0].At > s.until:
		why = "the store applied it while nobody waited for it"
	}
	if len(log) > 0 {
		s.from, s.until = log[0].At, log[0].At
	}
	return s, why == "", why
}

// unwritten tells where a value came from that nobody wrote to this register.
func (c *checker) unwritten(read Op) contradiction {
	bad := contradiction{why: "nobody wrote what was read", ops: []settled{unsettled(read)}}
	w, ok := c.writes[read.Value]
	switch {
	case !ok:
		return bad
	case w.Key != read.Key:
		bad.why = fmt.Sprintf("what was read was written to key %q", w.Key)
	case w.Outcome == Refused:
		bad.why = "what was read was refused"
	default:
		bad.why = "what was read never came to the store"
	}
	bad.ops = append(bad.ops, unsettled(w))
	return bad
}

// witness has a contradiction confirmed by the search.
func (c *checker) witness(bad *contradiction) error {
	err := c.search(bad.ops)
	switch {
	case errors.Is(err, errIllegal):
		return bad.err()
	case err == nil:
		return fmt.Errorf("the search accepts what the short way does not: %v", bad)
	default:
		return fmt.Errorf("%w; the short way: %v", err, bad)
	}
}
