//go:build linux

package procgroup_test

import (
	"bufio"
	"io"
	"os/exec"
	"runtime"
	"testing"

	"shardway/e2e/kit/procgroup"
)

// The browser of a test once died together with the thread that had started it: another
// test had locked this thread and let it end.
func TestChildOutlivesThreads(t *testing.T) {
	for range 20 {
		cmd := exec.CommandContext(t.Context(), "cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var wait func() error
		ended := make(chan struct{})
		go func() { // this locks the current thread, which then ends
			defer close(ended)
			wait, err = procgroup.Start(cmd)
			runtime.LockOSThread()
		}()
		<-ended
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(in, "here\n"); err != nil {
			t.Fatal(err)
		}
		output, err := bufio.NewReader(out).ReadString('\n')
		if output != "here\n" {
			t.Fatalf("it said %q, %v", output, err)
		}
		if err = in.Close(); err != nil {
			t.Fatal(err)
		}
		if err = wait(); err != nil {
			t.Fatalf("it ended with %v", err)
		}
	}
}
