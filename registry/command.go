package registry

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Kind is the kind of a command. The values are part of the format of the log.
type Kind uint8

// The kinds of commands.
const (
	Acquire       Kind = iota + 1 // get a lock, or a place in its queue
	Renew                         // restart the TTL of a lock
	Release                       // give a lock back
	Withdraw                      // leave the queue of a lock
	Expire                        // by the leader: end a lock whose TTL has passed
	ExpireWaiter                  // by the leader: end a waiter whose wait has passed
	Put                           // write a value
	Delete                        // delete a key
	AssignWorker                  // give a node a worker ID
	ReleaseWorker                 // take the worker ID of a removed node
)

// Command is a log entry of the registry. Kind determines which other fields are used.
type Command struct {
	Kind Kind `json:"kind"`
	// Name is the name of a lock, a key or a node ID.
	Name string `json:"name"`
	// Holder identifies the process that holds a lock or waits for it. A repeated Acquire of the same holder has the
	// same result.
	Holder string `json:"holder,omitempty"`
	// Token is the token of the lock for Renew, Release and Expire.
	Token uint64 `json:"token,omitempty"`
	// Renewal is the renewal that Expire and ExpireWaiter end, and the Result.Renewal of the Acquire that Withdraw
	// takes back.
	Renewal uint64 `json:"renewal,omitempty"`
	// TTL is the time to live for Acquire and Renew. Zero keeps the TTL of a renewed lock.
	TTL time.Duration `json:"ttl,omitempty"`
	// Wait is how long an Acquire stays in the queue. Zero means that it does not wait.
	Wait time.Duration `json:"wait,omitempty"`
	// Compare makes Put and Delete conditional: the key must have the index Index. Index zero means that the key must
	// not exist.
	Compare bool   `json:"compare,omitempty"`
	Index   uint64 `json:"index,omitempty"`
	// Value is the value for Put.
	Value []byte `json:"value,omitempty"`
}

// Encode returns the encoded command, without the version and the kind of the log entry that contains it.
func (c *Command) Encode() []byte {
	w := writer{buf: make([]byte, 0, 64+len(c.Name)+len(c.Holder)+len(c.Value))}
	w.uint(uint64(c.Kind))
	w.text(c.Name)
	w.text(c.Holder)
	w.uint(c.Token)
	w.uint(c.Renewal)
	w.duration(c.TTL)
	w.duration(c.Wait)
	w.bool(c.Compare)
	w.uint(c.Index)
	w.text(string(c.Value))
	return w.buf
}

// DecodeCommand decodes the output of Encode. The error is ErrCorrupt for any other input.
func DecodeCommand(data []byte) (Command, error) {
	r := reader{buf: data}
	c := Command{
		Kind: Kind(r.uint(uint64(ReleaseWorker))), Name: r.text(MaxKey), Holder: r.text(MaxHolder), Token: r.uint(maxUint), Renewal: r.uint(maxUint),
		TTL: r.duration(), Wait: r.duration(), Compare: r.bool(), Index: r.uint(maxUint), Value: []byte(r.text(MaxValue)),
	}
	if err := r.finish(); err != nil {
		return Command{}, err
	}
	if err := c.Validate(); err != nil {
		return Command{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return c, nil
}

const maxUint = 1<<64 - 1

// writer encodes entries and snapshots. Numbers are unsigned varints, and texts have a length prefix.
type writer struct{ buf []byte }

func (w *writer) uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

func (w *writer) text(v string) {
	w.uint(uint64(len(v)))
	w.buf = append(w.buf, v...)
}

func (w *writer) bool(v bool) {
	if v {
		w.uint(1)
	} else {
		w.uint(0)
	}
}

// duration writes whole milliseconds.
func (w *writer) duration(v time.Duration) { w.uint(uint64(v.Milliseconds())) }

// reader decodes the output of writer. After an error, its methods return zero values.
type reader struct {
	buf []byte
	err error
}

// fail records an error, unless there is one already, and drops the remaining input.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
		r.buf = nil
	}
}

// uint reads a number up to maximum. A number has only one encoding.
func (r *reader) uint(maximum uint64) uint64 {
	if r.err != nil {
		return 0
	}
	v, length := binary.Uvarint(r.buf)
	switch {
	case length <= 0:
		r.fail("bad number")
		return 0
	case length > 1 && r.buf[length-1] == 0:
		r.fail("number with padding")
		return 0
	case v > maximum:
		r.fail("number %d above %d", v, maximum)
		return 0
	}
	r.buf = r.buf[length:]
	return v
}

// text reads a text of up to limit bytes.
func (r *reader) text(limit int) string {
	length := int(r.uint(uint64(limit)))
	if length > len(r.buf) {
		r.fail("cut short")
	}
	if r.err != nil {
		return ""
	}
	text := string(r.buf[:length])
	r.buf = r.buf[length:]
	return text
}

func (r *reader) bool() bool { return r.uint(1) == 1 }

func (r *reader) duration() time.Duration {
	return time.Duration(r.uint(uint64(maxTime.Milliseconds()))) * time.Millisecond
}

// finish returns the first error of all reads. Unread bytes are also an error.
func (r *reader) finish() error {
	if len(r.buf) > 0 {
		r.fail("%d bytes too many", len(r.buf))
	}
	return r.err
}
