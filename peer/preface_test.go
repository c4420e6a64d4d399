package peer

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func testHello() hello {
	return hello{
		kind:        Raft,
		sender:      Identity{Cluster: "c1", Node: "a", Disk: "d1", Boot: 1 << 60, Record: Record{Nonce: 1<<64 - 1, Term: 2, Last: 3, Applied: 4}},
		wantedNode:  strings.Repeat("n", maxIDLen),
		wantedDisk:  "d2",
		knownBoot:   5,
		knownRecord: Record{Nonce: 6, Term: 7, Last: 8, Applied: 9},
	}
}

func TestHelloSurvivesTheWire(t *testing.T) {
	want := testHello()
	b, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(append(b, "rest"...))
	got, err := readHello(r)
	if err != nil || got != want {
		t.Errorf("readHello = %+v, %v, want %+v", got, err, want)
	}
	if r.Len() != len("rest") {
		t.Errorf("%d bytes left unread, want %d", r.Len(), len("rest"))
	}
}

func TestAnswerSurvivesTheWire(t *testing.T) {
	want := Identity{Cluster: "c1", Node: "b", Disk: "d2", Boot: 5, Record: Record{Nonce: 6, Term: 7, Last: 8, Applied: 9}}
	b, err := encodeAccepted(want)
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(append(b, "rest"...))
	if got, err := readResponse(r); err != nil || got != want {
		t.Errorf("readAnswer = %+v, %v, want %+v", got, err, want)
	}
	if r.Len() != len("rest") {
		t.Errorf("%d bytes left unread, want %d", r.Len(), len("rest"))
	}
}

func TestLongestRefusalCanBeRead(t *testing.T) {
	b := encodeRefused(newRefusal(RefusedClusterMismatch, "%s", strings.Repeat("ü", maxBodyLen)))
	_, err := readResponse(bytes.NewReader(b))
	var re *RefusedError
	if !errors.As(err, &re) || re.Code != RefusedClusterMismatch {
		t.Fatalf("readAnswer = %v, want the refusal", err)
	}
	if want := strings.Repeat("ü", maxReasonLen/2); re.Reason != want {
		t.Errorf("reason of %d bytes, want %d", len(re.Reason), len(want))
	}
}

func TestCutMessagesAreErrors(t *testing.T) {
	h, err := testHello().encode()
	if err != nil {
		t.Fatal(err)
	}
	a, err := encodeAccepted(Identity{Node: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range h {
		if _, err := readHello(bytes.NewReader(h[:i])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("hello cut at %d: %v, want an end of file", i, err)
		}
	}
	for i := range a {
		if _, err := readResponse(bytes.NewReader(a[:i])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("answer cut at %d: %v, want an end of file", i, err)
		}
	}
}

func TestEmptyNodeIDsAreMalformed(t *testing.T) {
	for _, h := range []hello{
		{kind: Forward, wantedNode: "b"},
		{kind: Forward, sender: Identity{Node: "a"}},
	} {
		b, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readHello(bytes.NewReader(b)); !errors.Is(err, errMalformed) {
			t.Errorf("%+v: %v, want errMalformed", h, err)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	b, err := testHello().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte("SHWY\x02\x00\x00"))
	f.Add([]byte("SHWY\x01\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := readHello(bytes.NewReader(in))
		if err != nil {
			return
		}
		out, err := h.encode()
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", h, err)
		}
		if !bytes.HasPrefix(in, out) {
			t.Fatalf("%q was read, %q is written: the form is not unique", in, out)
		}
	})
}

func FuzzReadAnswer(f *testing.F) {
	b, err := encodeAccepted(Identity{Cluster: "c1", Node: "b", Disk: "d", Boot: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encodeRefused(newRefusal(RefusedWrongNode, "no")))
	f.Add([]byte("SHWY\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		id, err := readResponse(bytes.NewReader(in))
		var re *RefusedError
		if errors.As(err, &re) && !utf8.ValidString(re.Reason) {
			t.Fatalf("reason %q is not UTF-8", re.Reason)
		}
		if err != nil {
			return
		}
		out, err := encodeAccepted(id)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", id, err)
		}
		if !bytes.HasPrefix(in, out) {
			t.Fatalf("%q was read, %q is written: the form is not unique", in, out)
		}
	})
}
