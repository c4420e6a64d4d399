//go:build linux

package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// passed forwards a response of 2 MiB with the given buffers and returns how much of its body arrived.
func passed(t *testing.T, buffers *Buffers) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	var near [2]*Conn
	var far [2]net.Conn
	for i := range near {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near[i] = NewConn(conn, Options{Buffers: buffers, Timeouts: Timeouts{Body: 10 * time.Second, Write: 10 * time.Second}})
		if far[i], err = ln.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = near[i].Close(), far[i].Close() })
	}
	go func() {
		_, _ = io.WriteString(far[0], "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n"+strings.Repeat("x", 2<<20)) // the reader reports an error
	}()
	arrived := make(chan int, 1)
	go func() {
		n, _ := io.Copy(io.Discard, far[1])
		arrived <- int(n)
	}()
	var res Response
	if err := near[0].ReadResponse(&res, []byte("GET")); err != nil {
		t.Fatal(err)
	}
	w := near[1].Writer()
	w.BeginBody(Length, 2<<20)
	if n, rerr, werr := w.Copy(&res.Body); n != 2<<20 || rerr != nil || werr != nil || w.Close(nil) != nil {
		t.Errorf("Copy = %d, %v, %v", n, rerr, werr)
	}
	_ = near[1].Close()
	return <-arrived
}

// Without a pipe, a response is copied: when the limit of pipes is reached, and when the kernel or a
// seccomp filter does not support splice. The support is checked once.
func TestSpliceDoesWithoutPipes(t *testing.T) {
	crowded := &Buffers{}
	crowded.pipes.inUse.Store(maxPipes)
	if n := passed(t, crowded); n != 2<<20 || crowded.pipes.inUse.Load() != maxPipes {
		t.Errorf("with all pipes lent %d bytes arrived, and then %d are", n, crowded.pipes.inUse.Load())
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	asked := 0
	refusing := &Buffers{}
	refusing.pipes.unused.New = func() any {
		asked++
		fd := int(file.Fd()) // not a pipe: the kernel returns EINVAL
		q := &pipe{fds: [2]int{fd, fd}}
		q.fillStep, q.drainStep = q.fill, q.drain
		return q
	}
	if n := passed(t, refusing); n != 2<<20 || asked != 1 || !refusing.pipes.disabled.Load() {
		t.Errorf("where nothing is spliced %d bytes arrived, and that was tried %d times", n, asked)
	}
}

// Unused pipes are closed, because connections need their descriptors.
func TestUnreferencedPipesAreClosed(t *testing.T) {
	var p pipes
	q := p.get()
	if q == nil {
		t.Fatal("there is no pipe")
	}
	reader := os.NewFile(uintptr(dup(t, q.fds[0])), "pipe")
	defer func() { _ = reader.Close() }()
	p.put(q)
	_ = reader.SetReadDeadline(time.Now().Add(10 * time.Second))
	collect, stop := time.NewTicker(time.Millisecond), make(chan struct{})
	defer collect.Stop()
	defer close(stop)
	go func() {
		for {
			select {
			case <-collect.C:
				runtime.GC()
			case <-stop:
				return
			}
		}
	}()
	if _, err := reader.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the writing end stays open: %v", err)
	}
	runtime.KeepAlive(&p)
}

// dup duplicates the descriptor of a pipe's end.
func dup(t *testing.T, fd int) int {
	t.Helper()
	n, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A pipe that still contains data of a response is closed and not reused.
func TestPipeWithDataIsNotReused(t *testing.T) {
	var p pipes
	for held, want := range []error{nil, unix.EPIPE} {
		q := p.get()
		if q == nil {
			t.Fatal("there is no pipe")
		}
		end, err := unix.Dup(q.fds[1]) // shows whether the other end is open
		if err != nil {
			t.Fatal(err)
		}
		q.buffered = held
		p.put(q)
		if _, err := unix.Write(end, []byte("x")); !errors.Is(err, want) {
			t.Errorf("holding %d bytes, the pipe that is put back takes more: %v, want %v", held, err, want)
		}
		_ = unix.Close(end)
	}
}
