//go:build linux

package recipes_test

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// lines is a process that reads a command per line, and prints a line for each.
type lines struct {
	stdin  io.Writer
	stdout *bufio.Scanner
}

// startLines starts a process. It ends with the test.
func startLines(t *testing.T, program string, args ...string) *lines {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // the process of a failed test is killed
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, 1<<20)
	return &lines{stdin, scanner}
}

// ask sends a command, and returns the line with the answer.
func (l *lines) ask(t *testing.T, command string) []byte {
	t.Helper()
	_, err := io.WriteString(l.stdin, command+"\n")
	must(t, err)
	if !l.stdout.Scan() {
		t.Fatalf("the clients have ended: %v", l.stdout.Err())
	}
	return l.stdout.Bytes()
}
