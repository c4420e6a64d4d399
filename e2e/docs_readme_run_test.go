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

// machine is a network namespace with addresses that README names, and a directory with
// ./shardway in it.
type machine struct {
	t    *testing.T
	host *netns.Host
	dir  string
}

// command is a line for a shell there.
func (m machine) command(ctx context.Context, line string) *exec.Cmd {
	args := m.host.Command("sh", "-c", line)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "PATH="+m.dir+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// does runs a line that must succeed.
func (m machine) does(line string) {
	m.t.Helper()
	out, err := m.command(m.t.Context(), line).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// goesOn starts a line that runs until it is stopped, at the latest with the test. It
// must end well.
func (m machine) goesOn(line string) (stop func()) {
	m.t.Helper()
	var said bytes.Buffer
	cmd := m.command(context.WithoutCancel(m.t.Context()), "exec "+line)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	stop = func() {
		if cmd.ProcessState != nil {
			return
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || m.t.Failed() {
			m.t.Errorf("%s: %v\n%s", line, err, &said)
		}
	}
	m.t.Cleanup(stop)
	return stop
}

// serves waits until the node there sees so many that are active.
func (m machine) serves(nodes int) (ids []string) {
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

// lineWith returns the one line of the blocks that contains a text, with those that a
// backslash joins to it.
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

// TestReadmeCommandsRun does word by word what README says under "Run it", on machines
// that have its addresses: a node alone, two by flags and one by the file; then what
// docs/operate/nodes.md says of looking at them, moving shards, adding a node and taking it
// away. The file had no secret once, so its nodes gossiped on loopback and never met, and
// check found nothing wrong.
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
		m := machine{t, net.Host(i), besideIt(t)}
		if broken := m.host.Also(fmt.Sprintf("10.0.0.%d/24", i+1)); broken != nil {
			t.Fatal(broken)
		}
		m.goesOn("./shardway demo-app --listen 127.0.0.1:9000 --state state")
		all = append(all, m)
	}
	a, b, c, single := all[0], all[1], all[2], all[3]
	blocks := readme(t, "Run it")
	stop := single.goesOn(blocks[0][1])
	a.does(lineWith(t, blocks, "keygen"))
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
	a.goesOn(run)
	b.goesOn(strings.Replace(run, "--node a", "--node b", 1))
	c.does("./shardway check --config shardway.yaml")
	stopped := c.goesOn("./shardway run --config shardway.yaml")
	for _, id := range a.serves(3) {
		if id != "a" && id != "b" {
			c.look(a, id)
		}
	}
	stopped() // drained itself, for as long as it ran
	c.goesOn("./shardway run --config shardway.yaml")
	a.serves(3)
	single.serves(1)
	stop()
	if err = os.WriteFile(filepath.Join(single.dir, "cluster.secret"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	single.comesAndGoes(a)
}

// comesAndGoes adds the machine to a cluster of three, with a new disk, and takes it away.
func (m machine) comesAndGoes(other machine) {
	m.t.Helper()
	line := lineWith(m.t, shown(m.t, operations, "Add a node"), "--node d")
	stop := m.goesOn(strings.Replace(line, "/var/lib/shardway", "new", 1))
	if ids := other.serves(4); !slices.Contains(ids, "d") {
		m.t.Errorf("d is added, and %v serve", ids)
	}
	away := shown(m.t, operations, "Remove a node")
	other.does(lineWith(m.t, away, "drain d"))
	stop()
	remove := lineWith(m.t, away, "remove d")
	cluster.Await(m.t, "the others know that d is gone", func() error {
		out, err := other.command(m.t.Context(), remove).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if ids := other.serves(3); slices.Contains(ids, "d") {
		m.t.Errorf("after its removal d serves: %v", ids)
	}
}

// look does what is said there to do with a cluster, from another of its machines, or for
// drain --local from this one; NODE is its own.
func (m machine) look(other machine, node string) {
	m.t.Helper()
	done := 0
	for _, line := range slices.Concat(slices.Concat(shown(m.t, "docs/reference/cli.md", "Commands"), shown(m.t, operations, "Move shards"))...) {
		line = strings.ReplaceAll(line, "NODE", node)
		at := other
		if strings.Contains(line, "--local") {
			at = m
		}
		if strings.Contains(line, "shardway remove") {
			continue // of a node that runs it does what docs/operate/backup-recovery.md is for
		}
		at.does(line)
		done++
	}
	if done < 15 {
		m.t.Errorf("it names %d commands, want 15 at least", done)
	}
}
