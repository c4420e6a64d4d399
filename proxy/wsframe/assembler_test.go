package wsframe_test

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"shardway/proxy/wsframe"
)

// assemble passes a stream to an Assembler in pieces of a size. It returns how many bytes belong to the
// message, and the message. done is false if the message is incomplete or invalid.
func assemble(stream []byte, size, maxBytes int) (a *wsframe.Assembler, used int, done bool, err error) {
	scanner := wsframe.Client()
	a = wsframe.NewAssembler(&scanner, maxBytes)
	for used < len(stream) {
		piece := stream[used:min(used+size, len(stream))]
		for len(piece) > 0 {
			n, done, err := a.Step(piece)
			used += n
			if done || err != nil {
				return a, used, done, err
			}
			piece = piece[n:]
		}
	}
	return a, used, false, nil
}

// FuzzAssembler verifies that the size of the pieces does not matter, that no more than the limit is
// stored, and that the message that is sent to the app is the one that was read.
func FuzzAssembler(f *testing.F) {
	f.Add(wsframe.AppendMessage(nil, true, []byte("hello")), 3, 100)
	f.Add(append(wsframe.AppendControl(nil, wsframe.OpPing, []byte("x"), true), wsframe.AppendMessage(nil, false, make([]byte, 200))...), 1, 200)
	f.Add([]byte{0x01, 0x81, 1, 2, 3, 4, 'a' ^ 1, 0x89, 0x80, 0, 0, 0, 0, 0x80, 0x81, 9, 9, 9, 9, 'b' ^ 9, 0x81}, 2, 2)
	f.Add([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 5, 10)
	f.Fuzz(func(t *testing.T, stream []byte, size, maxBytes int) {
		size, maxBytes = 1+(size&0x3f), maxBytes&0xfff
		whole, used, done, err := assemble(stream, len(stream)+1, maxBytes)
		pieces, usedInPieces, doneInPieces, errInPieces := assemble(stream, size, maxBytes)
		if done != doneInPieces || !errors.Is(err, errInPieces) || !bytes.Equal(whole.Data(), pieces.Data()) || done && used != usedInPieces {
			t.Fatalf("%d %v %v %q, in pieces %d %v %v %q", used, done, err, whole.Data(), usedInPieces, doneInPieces, errInPieces, pieces.Data())
		}
		if len(whole.Data()) > maxBytes {
			t.Fatalf("%d bytes are stored, more than %d", len(whole.Data()), maxBytes)
		}
		if !done {
			return
		}
		if whole.IsText() && !utf8.Valid(whole.Data()) {
			t.Fatalf("%q is not valid UTF-8", whole.Data())
		}
		sent := wsframe.AppendMessage(nil, whole.IsText(), whole.Data())
		again, usedAgain, doneAgain, err := assemble(sent, size, maxBytes)
		if err != nil || !doneAgain || usedAgain != len(sent) || again.IsText() != whole.IsText() || !bytes.Equal(again.Data(), whole.Data()) {
			t.Fatalf("%q becomes %q, %v", whole.Data(), again.Data(), err)
		}
	})
}

// A frame that is too long is refused when its header is complete, before its payload arrives.
func TestAssemblerRefusesLongFrameEarly(t *testing.T) {
	stream := wsframe.AppendMessage(nil, true, make([]byte, 1001))
	a, used, _, err := assemble(stream[:8], 1, 1000)
	if !errors.Is(err, wsframe.ErrTooLong) || used != 8 || len(a.Data()) != 0 {
		t.Errorf("%v after %d bytes, %d stored", err, used, len(a.Data()))
	}
}
