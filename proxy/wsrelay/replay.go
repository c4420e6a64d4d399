package wsrelay

import (
	"slices"
	"strconv"
	"strings"

	"shardway/proxy/wsframe"
)

const (
	// maxReplayBytes is the maximum size of the frames that a session stores for its next upstream
	// connections: messages of 64 KiB together, and their frame headers.
	maxReplayBytes = 65 << 10
	// maxReplayMessages is the largest number of messages that an app may request.
	maxReplayMessages = 64
)

// ParseConsent parses the value of Header in a 101 response. word is the first word that the value must
// have, and replay is the number of the client's messages that each later upstream connection receives
// first. ok is false for any other value.
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
// before any other data. It belongs to the direction up of the session's present relay. The zero value
// stores nothing.
type replay struct {
	messagesLeft int    // number of messages that are not stored yet
	frames       []byte // the frames of the stored messages, as the client has sent them
	completeLen  int    // length of the complete messages in frames
	exceeded     bool   // the messages are too long, so the session cannot be resumed
}

// record stores bytes of one frame that are sent to the app. scanner has just parsed them. Control
// frames are not stored.
func (r *replay) record(frame []byte, scanner *wsframe.Scanner) {
	if r.messagesLeft == 0 || r.exceeded || scanner.IsControl() {
		return
	}
	if len(r.frames)+len(frame) > maxReplayBytes {
		r.frames, r.completeLen, r.exceeded = nil, 0, true
		return
	}
	if r.frames = append(r.frames, frame...); scanner.BetweenMessages() {
		r.completeLen = len(r.frames)
		r.messagesLeft--
	}
	if r.messagesLeft == 0 {
		r.frames = slices.Clip(r.frames)
	}
}

// begin begins to store messages. first contains the frame of a message that is the first one of the
// client; nil means that the client has sent none.
func (r *replay) begin(messages int, first []byte) {
	r.messagesLeft = messages
	if messages == 0 || first == nil {
		return
	}
	r.frames, r.completeLen = slices.Clip(first), len(first)
	r.messagesLeft--
	r.exceeded = len(first) > maxReplayBytes
}

// messages returns the frames of the complete messages, and forgets an incomplete one. The client
// does not send the rest of an incomplete message to the next upstream connection.
func (r *replay) messages() []byte {
	r.frames = r.frames[:r.completeLen]
	return r.frames
}
