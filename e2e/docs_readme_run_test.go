//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/netns"
)

// machine is a network namespace with the addresses in README, and a directory that
// contains ./shardway.
type machine struct {
	t    *testing.T
	host *netns.Host
	dir  string
}

// command returns a command that runs a shell line on the machine.
func (m machine) command(ctx context.Context, line string) *exec.Cmd {
	args := m.host.Command("sh", "-c", line)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "PATH="+m.dir+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs a line that must succeed.
func (m machine) run(line string) {
	m.t.Helper()
	out, err := m.command(m.t.Context(), line).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// startLine starts a line that runs until stop is called or the test ends. It must exit with
// status 0.
func (m machine) startLine(line string) (stop func()) {
	m.t.Helper()
	var output bytes.Buffer
	cmd := m.command(context.WithoutCancel(m.t.Context()), "exec "+line)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	stop = func() {
		if cmd.ProcessState != nil {
			return
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || m.t.Failed() {
			m.t.Errorf("%s: %v\n%s", line, err, &output)
		}
	}
	m.t.Cleanup(stop)
	return stop
}

// awaitNodes waits until the node there reports this number of active nodes.
func (m machine) awaitNodes(nodes int) (ids []string) {
	m.t.Helper()
	cluster.Await(m.t, fmt.Sprintf("%s sees %d nodes", m.host.Data, nodes), func() error {
		out, err := m.command(m.t.Context(), "shardway nodes --json").CombinedOutput()
		var got struct{ Nodes []cluster.Member }
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		ids = nil
		for _, n := range got.Nodes {
			if n.State == "active" && n.Shards > 0 {
				ids = append(ids, n.ID)
			}
		}
		if err == nil && len(ids) == nodes {
			return nil
		}
		return fmt.Errorf("%s (%v)", out, err) //nolint:errorlint // mostly it is nil
	})
	return ids
}

// lineWith returns the line of the blocks that contains a text, including continuation
// lines after a backslash.
func lineWith(t *testing.T, blocks [][]string, text string) string {
	t.Helper()
	all := strings.ReplaceAll(strings.Join(slices.Concat(blocks...), "\n"), "\\\n", "")
	lines := slices.DeleteFunc(strings.Split(all, "\n"), func(l string) bool { return !strings.Contains(l, text) })
	if len(lines) != 1 {
		t.Fatalf("README has %d lines with %q, want 1: %q", len(lines), text, lines)
	}
	return lines[0]
}

const operations = "docs/operate/nodes.md"

// TestReadmeCommandsRun runs the commands of README under "Run it" as printed, on
// machines with its addresses: a single node, two nodes by flags and one by the file.
// Then it runs the commands of docs/operate/nodes.md: status, moves of shards, and adding
// and removing a node. The file once contained no secret, so its nodes used loopback
// addresses for gossip and never met, and check reported no problem.
func TestReadmeCommandsRun(t *testing.T) {
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	net, err := netns.New(int(networks.Add(1)), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if broken := net.Close(); broken != nil {
			t.Error(broken)
		}
	})
	var all []machine
	for i := range 4 {
		m := machine{t, net.Host(i), directoryWithBinary(t)}
		if broken := m.host.AddAddress(fmt.Sprintf("10.0.0.%d/24", i+1)); broken != nil {
			t.Fatal(broken)
		}
		m.startLine("./shardway demo-app --listen 127.0.0.1:9000 --state state")
		all = append(all, m)
	}
	a, b, c, single := all[0], all[1], all[2], all[3]
	blocks := readmeBlocks(t, "Run it")
	stop := single.startLine(blocks[0][1])
	a.run(lineWith(t, blocks, "keygen"))
	secret, err := os.ReadFile(filepath.Join(a.dir, "cluster.secret"))
	if err != nil {
		t.Fatal(err)
	}
	file := slices.IndexFunc(blocks, func(block []string) bool { return strings.HasPrefix(block[0], "# shardway.yaml") })
	if file < 0 {
		t.Fatal("README shows no shardway.yaml")
	}
	for name, text := range map[string]string{
		filepath.Join(b.dir, "cluster.secret"): string(secret), filepath.Join(c.dir, "cluster.secret"): string(secret),
		filepath.Join(c.dir, "shardway.yaml"): strings.Join(blocks[file], "\n"),
	} {
		if err = os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := lineWith(t, blocks, "--node a")
	a.startLine(run)
	b.startLine(strings.Replace(run, "--node a", "--node b", 1))
	c.run("./shardway check --config shardway.yaml")
	stopped := c.startLine("./shardway run --config shardway.yaml")
	for _, id := range a.awaitNodes(3) {
		if id != "a" && id != "b" {
			c.runClusterCommands(a, id)
		}
	}
	stopped() // it has drained itself
	c.startLine("./shardway run --config shardway.yaml")
	a.awaitNodes(3)
	single.awaitNodes(1)
	stop()
	if err = os.WriteFile(filepath.Join(single.dir, "cluster.secret"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	single.joinAndLeave(a)
}

// joinAndLeave adds the machine to a cluster of three, with a new disk, and removes it.
func (m machine) joinAndLeave(other machine) {
	m.t.Helper()
	line := lineWith(m.t, codeBlocks(m.t, operations, "Add a node"), "--node d")
	stop := m.startLine(strings.Replace(line, "/var/lib/shardway", "new", 1))
	if ids := other.awaitNodes(4); !slices.Contains(ids, "d") {
		m.t.Errorf("d is added, and %v serve", ids)
	}
	away := codeBlocks(m.t, operations, "Remove a node")
	other.run(lineWith(m.t, away, "drain d"))
	stop()
	remove := lineWith(m.t, away, "remove d")
	cluster.Await(m.t, "the others know that d is gone", func() error {
		out, err := other.command(m.t.Context(), remove).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if ids := other.awaitNodes(3); slices.Contains(ids, "d") {
		m.t.Errorf("after its removal d serves: %v", ids)
	}
}

// runClusterCommands runs the commands for a running cluster, from another machine, or from this one
// for drain --local. NODE is the ID of its node.
func (m machine) runClusterCommands(other machine, node string) {
	m.t.Helper()
	done := 0
	for _, line := range slices.Concat(slices.Concat(codeBlocks(m.t, "docs/reference/cli.md", "Commands"), codeBlocks(m.t, operations, "Move shards"))...) {
		line = strings.ReplaceAll(line, "NODE", node)
		at := other
		if strings.Contains(line, "--local") {
			at = m
		}
		if strings.Contains(line, "shardway remove") {
			continue // docs/operate/backup-recovery.md covers the backup of a running node
		}
		if strings.Contains(line, "shardway rebalance") {
			continue // it is refused, because no shard would move
		}
		if strings.Contains(line, "policy role NAME") { // no node has this role
			if out, err := at.command(m.t.Context(), line).CombinedOutput(); err == nil || !strings.Contains(string(out), "no-active-nodes") {
				m.t.Errorf("%s: %v, want a refusal:\n%s", line, err, out)
			}
			continue
		}
		at.run(line)
		done++
	}
	if done < 15 {
		m.t.Errorf("it names %d commands, want 15 at least", done)
	}
}
