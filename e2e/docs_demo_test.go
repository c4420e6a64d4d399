//go:build linux

package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/procgroup"
)

// Patterns in the output of the demo.
var (
	curl = regexp.MustCompile(`curl -H 'X-Shard-Key: (\w+)' (http://\S+)`)
	kill = regexp.MustCompile(`kill -9 (\d+)`)
	pids = regexp.MustCompile(`\(pid (\d+)\)|\s(\d+)\s+http://`)
)

// TestDemoMatchesItsOutput starts the demo like make run, and follows its output. The
// same node responds to one key at each port, and its count increases by one. A killed
// node fails no key, and Ctrl-C ends every process. The test also follows the part of
// README about the demo.
func TestDemoMatchesItsOutput(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binaries(t).Node, "demo")
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := procgroup.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState != nil {
			return
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		_ = wait()
	})
	output := readDemoOutput(t, bufio.NewScanner(out))
	var processes []int
	for _, m := range pids.FindAllStringSubmatch(output, -1) {
		pid, bad := strconv.Atoi(m[1] + m[2])
		if bad != nil {
			t.Fatal(bad)
		}
		processes = append(processes, pid)
	}
	if len(processes) != 6 {
		t.Errorf("the demo names %d processes, want 3 nodes and 3 apps:\n%s", len(processes), output)
	}
	curls := curl.FindAllStringSubmatch(output, -1)
	if len(curls) != 3 {
		t.Fatalf("the demo names %d commands like curl, want 3:\n%s", len(curls), output)
	}
	runReadmeCommands(t, output, curls)
	var node string
	for i := range 9 {
		got := ask(t, curls[i%3][1], curls[i%3][2])
		if i == 0 {
			node = got.Node
		}
		if got.Node != node || got.Count != i+4 || got.Epoch == 0 {
			t.Fatalf("request %d to %s: %+v, want count %d from %s", i, curls[i%3][2], got, i+4, node)
		}
	}
	if named := kill.FindAllStringSubmatch(output, -1); len(named) != 2 ||
		!regexp.MustCompile(`(?m)^  `+node+`\s+`+named[0][1]+`\s.*\(pid `+named[1][1]+`\)$`).MatchString(output) {
		t.Fatalf("the demo names %v to kill, want %s, which owns the key, and its app:\n%s", named, node, output)
	}
	checkChatStaysOpen(t, output)
	checkCountContinues(t, output, curls, node)
	for i := range 30 {
		ask(t, fmt.Sprint("key-", i), curls[0][2])
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	for _, pid := range processes {
		cluster.Await(t, fmt.Sprintf("process %d is gone", pid), func() error {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill(%d, 0) = %w", pid, err)
			}
			return nil
		})
	}
}

// checkChatStaysOpen keeps a connection to the chat room of the demo while its node hands all
// shards over and gets them back.
func checkChatStaysOpen(t *testing.T, output string) {
	t.Helper()
	url := regexp.MustCompile(`(?m)^  http://(\S+/chat\?room=(\w+))$`).FindStringSubmatch(output)
	commands := regexp.MustCompile(`(?m)^  \S+ ((?:drain|uncordon) (n\d).*)$`).FindAllStringSubmatch(output, -1)
	if url == nil || len(commands) != 2 {
		t.Fatalf("the demo names no chat room, or not how to drain its node:\n%s", output)
	}
	out, code := shardway(t, "locate", url[2])
	if owner := commands[0][2]; code != 0 || !regexp.MustCompile(`(?m)^`+url[2]+`\s+\d+\s+`+owner+`\s`).MatchString(out) {
		t.Fatalf("the demo drains %s, which does not own the room %s:\n%s", owner, url[2], out)
	}
	c := startChatter(t, "ws://"+url[1], "go")
	c.continues(t, "go")
	for _, m := range commands {
		if out, code := shardway(t, strings.Fields(m[1])...); code != 0 {
			t.Fatalf("%s: exit %d, %s", m[1], code, out)
		}
		c.continues(t, "go")
	}
}

// checkCountContinues kills the node that owns the key of the curl commands, then the app of the
// next owner. The count continues with the next number each time, and again when both are
// back.
func checkCountContinues(t *testing.T, output string, curls [][]string, node string) {
	t.Helper()
	count := 12
	next := func(url string) string {
		t.Helper()
		count++
		got := ask(t, curls[0][1], url)
		if got.Count != count {
			t.Fatalf("%s: %+v, want count %d", url, got, count)
		}
		return got.Node
	}
	other := func(but ...string) string {
		for i, id := range []string{"n1", "n2", "n3"} {
			if !slices.Contains(but, id) {
				return curls[i][2]
			}
		}
		return ""
	}
	processOf := func(pattern string) int {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(output)
		if m == nil {
			t.Fatalf("the demo does not say %s:\n%s", pattern, output)
		}
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	end := func(pid int) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	end(processOf(`(?m)^  ` + node + `\s+(\d+)`))
	second := next(other(node))
	end(processOf(`(?m)^  ` + second + `\s.*\(pid (\d+)\)`))
	next(other(node))
	for _, c := range curls {
		cluster.Await(t, c[2]+" responds again", func() error {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(c[2], "http://"), "/"))
			if err == nil {
				err = conn.Close()
			}
			return err
		})
		next(c[2])
	}
}

// readDemoOutput reads the output until the demo is ready, and discards the rest.
func readDemoOutput(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	var b strings.Builder
	for lines.Scan() {
		b.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Ctrl-C") {
			go func() {
				for lines.Scan() { // ends with the demo
				}
			}()
			return b.String()
		}
	}
	t.Fatalf("the demo ended before it served:\n%s", &b)
	return ""
}

// counted is the response of the sample app.
type counted struct {
	Node  string `json:"node"`
	Shard int    `json:"shard"`
	Epoch uint64 `json:"epoch"`
	Count int    `json:"count"`
}

// ask does the same as the curl command.
func ask(t *testing.T, key, url string) counted {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Shard-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got counted
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("key %q at %s: %s, %v", key, url, resp.Status, err)
	}
	return got
}
