//go:build linux

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/netns"
	"shardway/e2e/kit/procgroup"
)

const servicesPage = "docs/apps/services.md"

// fencedBlock returns the block of a page that begins with a line.
func fencedBlock(t *testing.T, page, firstLine string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	must(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+firstLine+"\n")
	block, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatalf("%s has no block that begins with %q", page, firstLine)
	}
	return block + "\n"
}

// startServicesExample starts the two nodes and the three apps of the page. Ctrl-C must end all of them.
func startServicesExample(t *testing.T, m machine) {
	t.Helper()
	for name, firstLine := range map[string]string{"app.py": "```python", "a.yaml": "# a.yaml", "b.yaml": "# b.yaml", "two.sh": "```bash"} {
		must(t, os.WriteFile(filepath.Join(m.dir, name), []byte(fencedBlock(t, servicesPage, firstLine)), 0o600))
	}
	cmd := m.command(context.WithoutCancel(t.Context()), "exec bash two.sh")
	wait, err := procgroup.Start(cmd)
	must(t, err)
	t.Cleanup(func() {
		must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		if err := wait(); err != nil {
			t.Errorf("two.sh: %v", err)
		}
		if !t.Failed() {
			return
		}
		for _, name := range []string{"a.log", "b.log"} {
			log, _ := os.ReadFile(filepath.Join(m.dir, name))
			t.Logf("%s:\n%s", name, log)
		}
	})
}

// TestServicesPageRuns runs the commands of docs/apps/services.md as printed, on a machine of its own.
func TestServicesPageRuns(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	network, err := netns.New(int(networks.Add(1)), 1)
	must(t, err)
	t.Cleanup(func() { must(t, network.Close()) })
	m := machine{t, network.Host(0), directoryWithBinary(t)}
	startServicesExample(t, m)
	for _, block := range codeBlocks(t, servicesPage, "Start the cluster") {
		for _, line := range block {
			m.run(line)
		}
	}
	wanted := []string{
		`^cart-a: service cart, shard 9, key alice\n$`,
		`^chat-[ab]: service chat, shard 73, key alice\n$`,
		`^\{"type":"urn:shardway:no-service",.*"status":404,`,
	}
	page, err := os.ReadFile(filepath.Join("..", servicesPage))
	must(t, err)
	for i, block := range codeBlocks(t, servicesPage, "Send requests") {
		first := ""
		for _, line := range block {
			out, err := m.command(t.Context(), strings.Replace(line, "curl ", "curl -sS ", 1)).CombinedOutput()
			if err != nil || !regexp.MustCompile(wanted[i]).Match(out) {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			if first == "" {
				first = string(out)
			}
			if string(out) != first {
				t.Errorf("%s: %q, and the first request got %q", line, out, first)
			}
		}
		if printed := strings.Replace(first, "chat-a", "chat-b", 1); i < 2 && strings.Count(string(page), printed) != len(block) {
			t.Errorf("%s does not print %q for each of the commands %q", servicesPage, printed, block)
		}
	}
}
