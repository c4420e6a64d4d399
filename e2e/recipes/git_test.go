//go:build linux

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	largeFile   = 20 << 20 // size of the file of a push that succeeds; git sends it in chunks
	abortedFile = 8 << 20  // size of the file of a push that a crash aborts
	pauseAt     = 4 << 20  // the relay stops there
)

// TestGitPushesSurviveMoves runs git's own HTTP server, git-http-backend, in Apache. The three instances share the
// directory of the repositories. Clients push and fetch through all nodes.
func TestGitPushesSurviveMoves(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := startGitWorld(t)
	nodes := g.w.Nodes()
	for i, repo := range g.repos {
		g.create(t, repo)
		repo.commit(t, fmt.Sprint("file of ", repo.key))
		must(t, repo.push(t.Context(), nodes[i%3].Addr))
		g.checkClones(t, repo)
	}

	// A drain with --idle-first waits for a push.
	repo := g.repos[0]
	owner := g.w.ownerOf(t, repo.key)
	other := g.w.Others(owner)[0]
	slow := repo.startLargePush(t, other.Addr, largeFile)
	owner.PerformAction(t, "drain", url.Values{"node": {owner.ID}, "idle_first": {"5m"}})
	g.w.awaitShards(t, owner, 1)
	slow.resume()
	must(t, slow.wait())
	g.w.awaitShards(t, owner, 0)
	g.checkClones(t, repo)
	g.w.uncordon(t, owner)

	// The crash of the instance ends a push. The client gets an error, and can push again.
	owner = g.w.ownerOf(t, repo.key)
	slow = repo.startLargePush(t, g.w.Others(owner)[0].Addr, abortedFile)
	crashed := g.w.instances[owner.ID]
	crashed.kill()
	slow.resume()
	g.checkFailedPush(t, repo, slow)
	must(t, repo.push(t.Context(), g.w.Others(owner)[1].Addr))
	g.checkClones(t, repo)
	crashed.start(t)
	crashed.awaitPort(t)
	g.w.AwaitServing(t)

	// Pushes wait while a node restarts.
	for _, repo := range g.repos {
		repo.commit(t, "rolling restart")
	}
	g.w.restartNodes(t, func(addrs []string) {
		for i, repo := range g.repos {
			if err := repo.push(t.Context(), addrs[i%len(addrs)]); err != nil {
				t.Error(err)
			}
		}
	})

	// The crash of the node of the owner ends a push, too.
	owner = g.w.ownerOf(t, repo.key)
	other = g.w.Others(owner)[0]
	slow = repo.startLargePush(t, other.Addr, abortedFile)
	g.w.killNode(t, owner)
	slow.resume()
	g.checkFailedPush(t, repo, slow)
	must(t, repo.push(t.Context(), other.Addr))
	for _, repo := range g.repos {
		g.checkClones(t, repo)
	}
	g.w.checkOwners(t, 100)
}

// gitWorld is a world of git servers.
type gitWorld struct {
	w     *world
	dir   string // directory of the repositories
	repos []*gitRepo
}

// gitRepo is a repository of a server, with a work tree of a client.
type gitRepo struct {
	key    string
	bare   string
	client string // work tree

	acked  string // last commit of a push that the server has acknowledged
	clones int    // number of clones so far
}

// startGitWorld starts the servers. Each node owns two repositories.
func startGitWorld(t *testing.T) *gitWorld {
	t.Helper()
	apache := findProgram(t, "apache2", "/usr/sbin/apache2")
	config, err := filepath.Abs("testdata/git/apache.conf")
	must(t, err)
	core := runGit(t, "", "--exec-path")
	g := &gitWorld{dir: t.TempDir()}
	// Apache does not run as root. Its user must be able to reach the repositories.
	must(t, os.Chmod(filepath.Dir(g.dir), 0o711))
	g.w = startWorld(t, func(_ string, port int, dir string) (args, env []string) {
		return []string{apache, "-f", config, "-DFOREGROUND"}, []string{fmt.Sprint("PORT=", port), "DIR=" + dir, "REPOS=" + g.dir, "GIT_CORE=" + core}
	}, "--key=path:/{key:[^/]+}.git/*")
	for _, node := range g.w.Nodes() {
		for _, key := range g.w.keysOf(t, node, 2) {
			g.repos = append(g.repos, &gitRepo{key: key, bare: filepath.Join(g.dir, key+".git"), client: filepath.Join(t.TempDir(), key)})
		}
	}
	return g
}

// create creates the repository at the server, and the one of the client.
func (g *gitWorld) create(t *testing.T, r *gitRepo) {
	t.Helper()
	runGit(t, "", "init", "-q", "--bare", "-b", "main", r.bare)
	runGit(t, r.bare, "config", "http.receivepack", "true")
	if os.Geteuid() == 0 {
		out, err := exec.CommandContext(t.Context(), "chown", "-R", "www-data:www-data", r.bare).CombinedOutput()
		if err != nil {
			t.Fatalf("chown: %v\n%s", err, out)
		}
	}
	runGit(t, "", "init", "-q", "-b", "main", r.client)
	runGit(t, r.client, "config", "core.compression", "0") // the file cannot be compressed
}

// checkClones reads the repository through all nodes, and clones it through one of them. The last acknowledged push
// must be there.
func (g *gitWorld) checkClones(t *testing.T, r *gitRepo) {
	t.Helper()
	g.checkRefs(t, r)
	nodes := g.w.Running()
	r.clones++
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", r.url(nodes[r.clones%len(nodes)].Addr), clone)
	if head := runGit(t, clone, "rev-parse", "HEAD"); head != r.acked {
		t.Errorf("a clone of %s has %s, and the last push was %s", r.key, head, r.acked)
	}
	runGit(t, clone, "diff", "--quiet", "HEAD") // all files are there
}

// checkRefs compares the branch that each node returns with the last acknowledged push. The repository must be
// consistent.
func (g *gitWorld) checkRefs(t *testing.T, r *gitRepo) {
	t.Helper()
	for _, node := range g.w.Running() {
		if refs := runGit(t, "", "ls-remote", r.url(node.Addr), "main"); refs != r.acked+"\trefs/heads/main" {
			t.Errorf("%s through node %s has %q, and the last push was %s", r.key, node.ID, refs, r.acked)
		}
	}
	runGit(t, r.bare, "fsck", "--connectivity-only")
}

// checkFailedPush waits for the error of an aborted push. The repository must be as it was before.
func (g *gitWorld) checkFailedPush(t *testing.T, r *gitRepo, push *largePush) {
	t.Helper()
	if err := push.wait(); err == nil {
		t.Error("the push has succeeded, but its instance has crashed")
	}
	g.checkRefs(t, r)
}

// url returns the address of the repository at a node.
func (r *gitRepo) url(addr string) string { return "http://" + addr + "/" + r.key + ".git" }

// commit adds a commit with a small change.
func (r *gitRepo) commit(t *testing.T, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(r.client, "README"), []byte(text+"\n"), 0o600))
	r.commitAll(t, text)
}

func (r *gitRepo) commitAll(t *testing.T, subject string) {
	t.Helper()
	runGit(t, r.client, "add", ".")
	runGit(t, r.client, "commit", "-q", "--allow-empty", "-m", subject)
}

// push pushes the commits of the client.
func (r *gitRepo) push(ctx context.Context, addr string) error {
	if _, err := git(ctx, r.client, "push", "-q", r.url(addr), "main"); err != nil {
		return err
	}
	head, err := git(ctx, r.client, "rev-parse", "HEAD")
	if err == nil {
		r.acked = head
	}
	return err
}

// largePush is a push whose relay has stopped.
type largePush struct {
	r     *relay
	ended chan error
}

// startLargePush pushes a file of this size. It returns when a part of the file has been sent.
func (r *gitRepo) startLargePush(t *testing.T, addr string, size int) *largePush {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32s", r.acked[:32])))).Read(data)
	must(t, os.WriteFile(filepath.Join(r.client, "large"), data, 0o600))
	r.commitAll(t, "large file")
	p := &largePush{startRelay(t, addr, pauseAt), make(chan error, 1)}
	go func() { p.ended <- r.push(t.Context(), p.r.addr) }()
	select {
	case <-p.r.paused:
	case err := <-p.ended:
		t.Fatalf("the push has ended before the relay stopped: %v", err)
	}
	return p
}

// resume lets the relay continue.
func (p *largePush) resume() { close(p.r.resume) }

// wait waits until the push has ended.
func (p *largePush) wait() error { return <-p.ended }

// runGit is git for commands that must succeed.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(t.Context(), dir, args...)
	must(t, err)
	return out
}

// git runs git in a directory, without the configuration of the user. It returns the output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(fmt.Errorf("git %s: %s", strings.Join(args, " "), out), err)
	}
	return strings.TrimSpace(string(out)), err
}
