package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"shardway/admin"
	"shardway/internal/secret"
	"shardway/node/gossip"
)

const (
	// stepTimeout bounds one node's answer to one step.
	stepTimeout = 3 * time.Second
	// stepTries is how often a step is asked for: a node may come in meanwhile.
	stepTries = 3
)

var _ admin.Rotator = (*Node)(nil)

// Rotate replaces the cluster's secret on every node, through the leader. One
// that stopped half way is taken up where it stood.
func (n *Node) Rotate(ctx context.Context, by string) (admin.Rotation, error) {
	ctx, cancel := context.WithTimeout(ctx, rotateTimeout)
	defer cancel()
	if n.o.Secrets == nil {
		return admin.Rotation{}, errNoSecrets
	}
	if l := n.leadership(); l != nil {
		return l.rotate(ctx, by)
	}
	leader := n.leader()
	if leader == "" {
		return admin.Rotation{}, fmt.Errorf("%w: %s", admin.ErrNoLeader, n.leaderless())
	}
	var r admin.Rotation
	return r, n.ask(ctx, leader, request{What: askRotate, By: by}, &r)
}

// rotateTimeout bounds a rotation; serveControl bounds one that another node
// asked for by the same.
const rotateTimeout = controlTimeout

// rotation drives one: install, use, retire, each on all nodes before the next.
// The nodes' files are its only state, and the newest secret is where it goes,
// so whoever leads next can go on.
type rotation struct {
	n      *Node
	target secret.Secret
}

func (l *leading) rotate(ctx context.Context, by string) (admin.Rotation, error) {
	if !l.n.rotating.TryLock() {
		return admin.Rotation{}, fmt.Errorf("%w: a rotation is running", admin.ErrRefused)
	}
	defer l.n.rotating.Unlock()
	l.log.Info().Str("by", by).Msg("rotation of the secret asked for")
	r := &rotation{n: l.n}
	nodes, err := r.run(ctx)
	if err != nil {
		l.log.Warn().Err(err).Msg("rotation of the secret stopped")
		return admin.Rotation{}, fmt.Errorf("%w: %w", admin.ErrRefused, err)
	}
	l.log.Info().Str("secret", r.target.Fingerprint()).Strs("nodes", nodes).Msg("secret rotated")
	return admin.Rotation{Secret: r.target.Fingerprint(), Nodes: nodes}, nil
}

func (r *rotation) run(ctx context.Context) ([]string, error) {
	held, err := r.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if err = r.choose(ctx, held); err != nil {
		return nil, err
	}
	f := r.target.Fingerprint()
	has := func(h []secret.Held) bool {
		return slices.ContainsFunc(h, func(x secret.Held) bool { return x.Fingerprint == f })
	}
	uses := func(h []secret.Held) bool { return len(h) > 0 && h[0].Fingerprint == f }
	only := func(h []secret.Held) bool { return uses(h) && len(h) == 1 }
	for _, s := range []struct {
		step secretStep
		done func([]secret.Held) bool
	}{
		{secretStep{Do: secretInstall, Line: r.target.Line()}, has},
		{secretStep{Do: secretUse, Fingerprint: f}, uses},
		{secretStep{Do: secretRetire, Fingerprint: f}, only},
	} {
		if held, err = r.ensure(ctx, s.step, s.done); err != nil {
			return nil, fmt.Errorf("stopped at the step %q: %w; the secrets that nodes use are accepted by all the others: bring the missing back or remove them, then run it again", s.step.Do, err)
		}
	}
	return slices.Sorted(maps.Keys(held)), nil
}

// choose decides which secret all shall have: the newest there is if they
// differ, because then a rotation is under way, else a new one.
func (r *rotation) choose(ctx context.Context, held map[string][]secret.Held) error {
	all := map[string]secret.Held{}
	at := map[string]string{} // fingerprint → a node that has it
	for node, h := range held {
		for _, x := range h {
			all[x.Fingerprint], at[x.Fingerprint] = x, node
		}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b secret.Held) int {
		return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	keeper := r.n.o.Secrets
	if len(sorted) == 1 {
		made := time.Now()
		if last := sorted[0].Made.Add(time.Second); last.After(made) {
			made = last
		}
		r.target = secret.Generate(made)
		return keeper.Install(r.target)
	}
	newest := sorted[0]
	if newest.Made.Equal(sorted[1].Made) {
		return fmt.Errorf("the nodes hold the secrets %s and %s, and nothing says which one is newer (made=TIME behind it in the file): finish by hand", newest.Fingerprint, sorted[1].Fingerprint)
	}
	var ok bool
	if r.target, ok = keeper.List().Find(newest.Fingerprint); ok {
		return nil
	}
	var s secretState
	if err := r.n.ask(ctx, at[newest.Fingerprint], request{What: askSecret, Secret: secretStep{Do: secretGive, Fingerprint: newest.Fingerprint}}, &s); err != nil {
		return err
	}
	var err error
	if r.target, err = secret.ParseLine(s.Line); err != nil {
		return err
	}
	return keeper.Install(r.target)
}

// ensure has every node take a step that has not, until all have, and returns
// what they hold then.
func (r *rotation) ensure(ctx context.Context, s secretStep, done func([]secret.Held) bool) (map[string][]secret.Held, error) {
	for range stepTries {
		held, err := r.gather(ctx)
		if err != nil {
			return nil, err
		}
		var todo []string
		for node, h := range held {
			if !done(h) {
				todo = append(todo, node)
			}
		}
		if len(todo) == 0 {
			return held, nil
		}
		if _, err := r.tell(ctx, todo, s); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nodes go on coming in that have not taken it")
}

// gather asks every node what it holds.
func (r *rotation) gather(ctx context.Context) (map[string][]secret.Held, error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	return r.tell(ctx, nodes, secretStep{Do: secretShow})
}

// nodes are all that must follow: those of the configuration, running or not,
// and those that gossip sees.
func (r *rotation) nodes() ([]string, error) {
	voters, others := r.n.servers()
	all := map[string]bool{}
	for _, server := range slices.Concat(voters, others) {
		all[nodeOf(server)] = true
	}
	var outside []string
	for _, m := range r.n.gossip.Members() {
		switch {
		case m.Status != gossip.Alive && m.Status != gossip.Leaving:
		case m.Node:
			all[m.ID] = true
		default:
			outside = append(outside, m.ID)
		}
	}
	if len(outside) > 0 {
		return nil, fmt.Errorf("members that are no nodes cannot be told (%s): rotate by hand, as shardway rotate --help describes", strings.Join(outside, ", "))
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// tell has the nodes take a step, all at once. Its error names everybody who did
// not, and why.
func (r *rotation) tell(ctx context.Context, nodes []string, s secretStep) (map[string][]secret.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	held := make(map[string][]secret.Held, len(nodes))
	missing := map[string]error{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range nodes {
		asked.Go(func() {
			var state secretState
			var err error
			if node == string(r.n.self) {
				state, err = r.n.secretStep(node, s)
			} else {
				err = r.n.ask(ctx, node, request{What: askSecret, Secret: s}, &state)
			}
			mu.Lock()
			defer mu.Unlock()
			if held[node] = state.Held; err != nil {
				missing[node] = err
			}
		})
	}
	asked.Wait()
	if len(missing) == 0 {
		return held, nil
	}
	var why []string
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		why = append(why, fmt.Sprintf("node %q is missing (%v)", node, missing[node]))
	}
	return nil, errors.New(strings.Join(why, "; "))
}
