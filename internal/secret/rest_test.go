package secret_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"reflect"
	"testing"
	"time"

	"shardway/internal/secret"
)

// A stream on which nothing is said kept as much memory as its largest record and its
// handshake had needed. If this fails with a new version of Go, readingOf is to look
// elsewhere: until then streams keep it.
func TestRestingStreamKeepsNoBuffer(t *testing.T) {
	l := secret.List{secret.Generate(time.Now())}
	c, s, cerr, serr := meet(t, dialing(seal(t, l, "a"), "b"), accepting(seal(t, l, "b")))
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	for _, size := range []int{1, 100, 16 << 10, 100 << 10, 1} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		wrote := make(chan error, 1)
		go func() {
			_, err := s.Write(sent)
			wrote <- err
		}()
		got := make([]byte, size)
		in := sealed(t, c)
		if size > 1 {
			if _, err := io.ReadFull(in, got[:size-1]); err != nil {
				t.Fatal(err)
			}
			if in.Drained() {
				t.Errorf("Drained() = true with a byte of %d left", size)
			}
		}
		if _, err := io.ReadFull(in, got[max(size-1, 0):]); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes differ from what was sent, %v", size, err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		if !in.Drained() {
			t.Fatalf("Drained() = false after all %d bytes", size)
		}
		if secret.Keeps(in) == 0 {
			t.Errorf("nothing is kept after %d bytes: is it looked for where it is?", size)
		}
		if in.Rest(); secret.Keeps(in) != 0 {
			t.Errorf("%d bytes are kept at rest", secret.Keeps(in))
		}
	}
}

// With a Go that keeps it elsewhere nothing is known, and nothing touched.
func TestUnknownConnNeverRests(t *testing.T) {
	field := func(name string, of reflect.Type) reflect.StructField {
		return reflect.StructField{Name: name, PkgPath: "crypto/tls", Type: of}
	}
	buffer := reflect.TypeFor[bytes.Buffer]()
	other := reflect.StructOf([]reflect.StructField{field("rawInput", buffer), field("input", buffer), field("hand", buffer)})
	for _, conn := range []reflect.Type{reflect.TypeFor[struct{}](), other} {
		if secret.KnowsReading(conn) {
			t.Errorf("the fields of %v are known", conn)
		}
	}
	if !secret.KnowsReading(reflect.TypeFor[tls.Conn]()) {
		t.Error("those of tls.Conn are not")
	}
}
