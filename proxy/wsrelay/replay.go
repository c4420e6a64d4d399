package wsrelay

import (
	"strconv"
	"strings"
	"sync/atomic"

	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

const (
	// maxReplayBytes is the maximum size of the frames that a session stores for its next upstream connections:
	// messages of 64 KiB in total, plus their frame headers.
	maxReplayBytes = 65 << 10
	// maxReplayMessages is the maximum number of messages that an app may request.
	maxReplayMessages = 64
)

// MaxReplayMemory is the maximum size of the frames that all sessions of a node store for their next upstream
// connections.
const MaxReplayMemory = 64 << 20

// ReplayMemory is the memory of the frames that all sessions of a node store. The zero value is ready. Any
// goroutine may use it.
type ReplayMemory struct {
	// Max is the maximum number of bytes; zero means MaxReplayMemory.
	Max int64
	// Refused is the number of sessions that could not store their frames because of Max.
	Refused atomic.Uint64

	bytes atomic.Int64
}

// Size returns the number of bytes that all sessions use.
func (m *ReplayMemory) Size() int64 { return m.bytes.Load() }

// add adds size bytes, and reports whether the limit permits them.
func (m *ReplayMemory) add(size int) bool {
	limit := m.Max
	if limit == 0 {
		limit = MaxReplayMemory
	}
	if m.bytes.Add(int64(size)) > limit {
		m.bytes.Add(-int64(size))
		return false
	}
	return true
}

// ParseConsent parses the value of Header in a 101 response. The value must start with word. replay is the number
// of the client's messages that each later upstream connection receives first. ok is false for any other value.
func ParseConsent(value []byte, word string) (replay int, ok bool) {
	first, parameter, hasParameter := strings.Cut(string(value), ";")
	if strings.TrimRight(first, " \t") != word {
		return 0, false
	}
	if !hasParameter {
		return 0, true
	}
	number, isReplay := strings.CutPrefix(strings.Trim(parameter, " \t"), "replay=")
	replay, err := strconv.Atoi(number)
	isCanonical := err == nil && strconv.Itoa(replay) == number
	if !isReplay || !isCanonical || replay < 1 || replay > maxReplayMessages {
		return 0, false
	}
	return replay, true
}

// AppendAccepted appends the value with which the owner confirms to the ingress that the session is
// resumable. replay is the result of ParseConsent.
func AppendAccepted(b []byte, replay int) []byte {
	b = append(b, ValueAccepted...)
	if replay > 0 {
		b = strconv.AppendInt(append(b, "; replay="...), int64(replay), 10)
	}
	return b
}

// replay stores the first messages of a client, so that each later upstream connection receives them
// before any other data. It belongs to the direction up of the session's current relay. The zero value
// stores nothing.
type replay struct {
	memory       *ReplayMemory // memory of the node; nil if the session stores nothing
	reserved     int           // number of bytes in memory
	messagesLeft int           // number of messages that are not stored yet
	frames       []byte        // the frames of the stored messages, as the client has sent them
	completeLen  int           // length of the complete messages in frames
	failure      string        // why the session cannot be resumed; empty if it can
}

// record stores bytes of a frame that are sent to the app and have just been parsed by scanner. Control frames are
// not stored.
func (r *replay) record(frame []byte, scanner *wsframe.Scanner) {
	if r.messagesLeft == 0 || r.failure != "" || scanner.IsControl() || !r.store(frame) {
		return
	}
	if scanner.BetweenMessages() {
		r.completeLen = len(r.frames)
		r.messagesLeft--
	}
}

// store appends bytes to frames. If they exceed a limit, it releases all frames and returns false.
func (r *replay) store(frame []byte) bool {
	if len(r.frames)+len(frame) > maxReplayBytes {
		r.release()
		r.failure = wsession.ReasonReplayTooLong
		return false
	}
	r.frames = append(r.frames, frame...)
	if size := cap(r.frames); size > r.reserved {
		if !r.memory.add(size - r.reserved) {
			r.memory.Refused.Add(1)
			r.release()
			r.failure = wsession.ReasonReplayMemory
			return false
		}
		r.reserved = size
	}
	return true
}

// release releases the stored frames.
func (r *replay) release() {
	if r.memory != nil {
		r.memory.bytes.Add(-int64(r.reserved))
	}
	r.frames, r.completeLen, r.reserved = nil, 0, 0
}

// begin starts storing messages in the node's memory. first contains the frame of the client's first message; nil
// means that the client has sent none.
func (r *replay) begin(memory *ReplayMemory, messages int, first []byte) {
	r.memory, r.messagesLeft = memory, messages
	if messages > 0 && first != nil && r.store(first) {
		r.completeLen = len(first)
		r.messagesLeft--
	}
}

// messages returns the frames of the complete messages and drops an incomplete one, whose rest would not be sent to
// the next upstream connection.
func (r *replay) messages() []byte {
	r.frames = r.frames[:r.completeLen]
	return r.frames
}
