package wsframe_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"shardway/proxy/wsframe"
)

// state is the result of a Scanner for a stream.
type state struct {
	frame, message int // end of the last complete frame, and of the last complete message that is not inside another one
	between, whole bool
	inMessage      bool
	closed         bool
	code           int
	err            error
}

// follow feeds a stream in chunks of at most size bytes.
func follow(stream []byte, masked bool, size int) state {
	s := wsframe.Scanner{}
	if masked {
		s = wsframe.Client()
	}
	var out state
	at := 0
	for at < len(stream) {
		chunk := stream[at:min(at+size, len(stream))]
		for len(chunk) > 0 {
			n, err := s.Step(chunk)
			if err != nil {
				out.err = err
				return out
			}
			at += n
			chunk = chunk[n:]
			if s.BetweenFrames() {
				out.frame = at
			}
			if s.BetweenMessages() {
				out.message = at
			}
		}
	}
	out.between, out.whole, out.inMessage, out.closed = s.BetweenFrames(), s.BetweenMessages(), s.InMessage(), s.Closed()
	if out.closed {
		out.code = s.CloseCode()
	}
	return out
}

// slowly is a simple reference parser of a complete stream. Its result must equal that of a Scanner.
func slowly(b []byte, masked bool) state {
	out := state{between: true, whole: true}
	message := false
	for at := 0; at < len(b); {
		if out.closed {
			return state{frame: out.frame, message: out.message, err: wsframe.ErrAfterClose}
		}
		size, head, err := slowHead(b[at:], masked, message)
		if err != nil {
			return state{frame: out.frame, message: out.message, err: err}
		}
		op := b[at] & 15
		if head == 0 || uint64(len(b)-at-head) < size {
			out.between, out.whole = false, false
			out.inMessage = message || op < 8
			return out
		}
		end := at + head + int(size)
		if op < 8 {
			message = b[at]&0x80 == 0
		} else if op == wsframe.OpClose {
			payload := bytes.Clone(b[at+head : end])
			for i := range payload {
				if masked {
					payload[i] ^= b[at+head-4+i%4]
				}
			}
			if len(payload) == 1 || len(payload) > 1 && (!wsframe.ValidCode(int(payload[0])<<8|int(payload[1])) || strings.ToValidUTF8(string(payload[2:]), "") != string(payload[2:])) {
				return state{frame: out.frame, message: out.message, err: wsframe.ErrClose}
			}
			out.closed, out.code = true, wsframe.NoCode
			if len(payload) > 1 {
				out.code = int(payload[0])<<8 | int(payload[1])
			}
		}
		at = end
		out.frame, out.between, out.whole, out.inMessage = at, true, !message, message
		if !message {
			out.message = at
		}
	}
	return out
}

// slowHead parses a frame header. It returns the payload size, and a header length of 0 if the header
// is incomplete.
func slowHead(b []byte, masked, message bool) (size uint64, head int, err error) {
	op, fin := b[0]&15, b[0]&0x80 != 0
	switch {
	case b[0]&0x70 != 0, op > 2 && op < 8, op > 10:
		return 0, 0, wsframe.ErrReserved
	case op == 0 && !message, (op == 1 || op == 2) && message:
		return 0, 0, wsframe.ErrFragments
	case op >= 8 && !fin:
		return 0, 0, wsframe.ErrControl
	case len(b) < 2:
		return 0, 0, nil
	case b[1]&0x80 != 0 != masked:
		return 0, 0, wsframe.ErrMasking
	}
	head = 2
	size = uint64(b[1] & 127)
	if op >= 8 && size > 125 {
		return 0, 0, wsframe.ErrControl
	}
	if masked {
		head += 4
	}
	switch size {
	case 126:
		if head += 2; len(b) >= head {
			if size = uint64(binary.BigEndian.Uint16(b[2:])); size < 126 {
				return 0, 0, wsframe.ErrLength
			}
		}
	case 127:
		if head += 8; len(b) >= head {
			if size = binary.BigEndian.Uint64(b[2:]); size < 1<<16 || size >= 1<<63 {
				return 0, 0, wsframe.ErrLength
			}
		}
	}
	if len(b) < head {
		return 0, 0, nil
	}
	return size, head, nil
}

// agree checks a stream at each chunk size, and truncated at each byte.
func agree(t *testing.T, stream []byte, masked bool) {
	t.Helper()
	for end := range len(stream) + 1 {
		want := slowly(stream[:end], masked)
		for _, size := range []int{1, 2, 3, 7, len(stream) + 1} {
			if got := follow(stream[:end], masked, size); got != want {
				t.Fatalf("%x in chunks of %d, masked %v: %+v, want %+v", stream[:end], size, masked, got, want)
			}
		}
	}
}

// frame returns an encoded frame.
func frame(first byte, masked bool, payload string) []byte {
	b := []byte{first}
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if !masked {
		return append(b, payload...)
	}
	key := [4]byte{1, 2, 3, 4}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i%4])
	}
	return b
}

// For all chunk sizes, a Scanner and the reference parser agree on the end of the last frame, the end
// of the last message, and the error.
func TestScannerAgreesWithAPlainParser(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, masked := range []bool{false, true} {
		f := func(first byte, payload string) []byte { return frame(first, masked, payload) }
		for name, frames := range map[string][][]byte{
			"messages":       {f(0x81, "hello"), f(0x82, ""), f(0x82, long)},
			"fragments":      {f(0x01, "a"), f(0x89, "ping"), f(0x00, ""), f(0x8a, ""), f(0x80, "b"), f(0x81, "c")},
			"close":          {f(0x81, "x"), f(0x88, "\x03\xe8bye")},
			"empty close":    {f(0x88, "")},
			"close inside":   {f(0x01, "a"), f(0x88, "\x0b\xb8")},
			"after close":    {f(0x88, ""), f(0x81, "x")},
			"short close":    {f(0x88, "\x03")},
			"close 1005":     {f(0x88, "\x03\xed")},
			"close not UTF8": {f(0x88, "\x03\xe8\xff")},
			"reserved bit":   {f(0x81, "x"), f(0xc1, "x")},
			"reserved data":  {f(0x83, "x")},
			"reserved ctl":   {f(0x8b, "x")},
			"long ping":      {f(0x89, long)},
			"half a ping":    {f(0x09, "")},
			"no beginning":   {f(0x80, "x")},
			"two beginnings": {f(0x01, "x"), f(0x81, "y")},
			"wrong mask":     {frame(0x81, !masked, "x")},
		} {
			t.Run(fmt.Sprint(name, masked), func(t *testing.T) { agree(t, bytes.Join(frames, nil), masked) })
		}
	}
}

// A payload length must have the shortest encoding and at most 63 bits.
func TestScannerRefusesLengths(t *testing.T) {
	for _, head := range []string{
		"\x82\x7e\x00\x7d", "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00",
	} {
		agree(t, []byte(head+"abc"), false)
		if got := follow([]byte(head+"abc"), false, 100); !errors.Is(got.err, wsframe.ErrLength) {
			t.Errorf("%x: %v", head, got.err)
		}
	}
	var s wsframe.Scanner
	if _, err := s.Step([]byte("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xffabc")); err != nil || s.BetweenFrames() {
		t.Errorf("63 bits: %v", err)
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("\x01\x01a\x89\x00\x80\x01b\x88\x02\x03\xe8"), false)
	f.Add(frame(0x82, true, strings.Repeat("y", 130)), true)
	f.Fuzz(func(t *testing.T, stream []byte, masked bool) { agree(t, stream[:min(len(stream), 300)], masked) })
}

// A Scanner processes every byte of every resumable WebSocket, so it must not allocate.
func TestScannerAllocatesNothing(t *testing.T) {
	stream := bytes.Repeat(frame(0x82, true, strings.Repeat("z", 300)), 10)
	if n := testing.AllocsPerRun(100, func() {
		s := wsframe.Client()
		for p := stream; len(p) > 0; {
			n, err := s.Step(p)
			if err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A private control frame is accepted only if the caller permits it, and its payload is returned.
func TestScannerAcceptsExtraOpcode(t *testing.T) {
	word := wsframe.AppendControl(nil, 0xf, []byte("moved"), false)
	s := wsframe.Scanner{ExtraOpcode: 0xf}
	if n, err := s.Step(word); err != nil || n != len(word) || s.Opcode() != 0xf || string(s.Payload()) != "moved" || !s.BetweenMessages() {
		t.Errorf("Step = %d, %v; op %x, payload %q", n, err, s.Opcode(), s.Payload())
	}
	plain := wsframe.Scanner{}
	if _, err := plain.Step(word); !errors.Is(err, wsframe.ErrReserved) {
		t.Errorf("without being asked for: %v", err)
	}
}

func TestCloseFramesAreWhatAScannerReads(t *testing.T) {
	for _, masked := range []bool{false, true} {
		for _, code := range []int{1000, 1012, 4999, wsframe.NoCode} {
			s := wsframe.Scanner{}
			if masked {
				s = wsframe.Client()
			}
			b := wsframe.AppendClose(nil, code, "the shard moved", masked)
			if n, err := s.Step(b); err != nil || n != len(b) || !s.Closed() || s.CloseCode() != code {
				t.Errorf("Close %d, masked %v: %d of %d, %v, code %d", code, masked, n, len(b), err, s.CloseCode())
			}
		}
	}
}
