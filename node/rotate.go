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
	shown, err := n.askProven(ctx, leader, askRotate, func([]byte) (any, error) { return by, nil }, &r)
	if err != nil {
		return admin.Rotation{}, err
	}
	// What a leader says that is none of us may be anything.
	return r, current(n.o.Secrets.List(), shown, leader)
}

// rotateTimeout bounds a rotation; serveControl bounds one that another node
// asked for by the same.
const rotateTimeout = controlTimeout

// rotation drives one: install, use, retire, each on all nodes before the next.
// The nodes' files are its only state, and the newest secret is where it goes,
// so whoever leads next can go on if he has it.
//
// Whoever has only an older secret shall not get the newer one from it, nor end
// it. So what a person put into files is sent to nobody; what a rotation made is
// sent to who has shown the newest secret in use, wrapped by that, and no more
// once a node uses it; and nodes take no word of those who have not shown the
// newest they have themselves, see secret.Keeper.
type rotation struct {
	n      *Node
	target secret.Secret
}

// witness is what one node says about its secrets.
type witness struct {
	held []secret.Held
	// shown are those of the leader's secrets that it has for certain.
	shown secret.List
}

func (w witness) has(f string) bool {
	return slices.ContainsFunc(w.held, func(x secret.Held) bool { return x.Fingerprint == f })
}
func (w witness) uses(f string) bool { return len(w.held) > 0 && w.held[0].Fingerprint == f }
func (w witness) only(f string) bool { return w.uses(f) && len(w.held) == 1 }

func (l *leading) rotate(ctx context.Context, by string) (admin.Rotation, error) {
	if !l.n.rotating.TryLock() {
		return admin.Rotation{}, fmt.Errorf("%w: a rotation is running", admin.ErrRefused)
	}
	defer l.n.rotating.Unlock()
	l.log.Info().Str("by", cut(by)).Msg("rotation of the secret asked for")
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
	all, err := r.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if err = r.choose(all); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		do   string
		done func(witness, string) bool
	}{{secretInstall, witness.has}, {secretUse, witness.uses}, {secretRetire, witness.only}} {
		if all, err = r.ensure(ctx, s.do, s.done); err != nil {
			return nil, fmt.Errorf("stopped at the step %q: %w; the secrets that nodes use are accepted by all the others: bring the missing back or remove them, then run it again", s.do, err)
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// choose decides which secret all shall have: the newest there is if they
// differ, because then a rotation is under way, else a new one.
func (r *rotation) choose(all map[string]witness) error {
	at := map[string][]string{} // fingerprint → the nodes that have it
	held := map[string]secret.Held{}
	for _, node := range slices.Sorted(maps.Keys(all)) {
		for _, x := range all[node].held {
			held[x.Fingerprint] = x
			at[x.Fingerprint] = append(at[x.Fingerprint], node)
		}
	}
	sorted := slices.SortedFunc(maps.Values(held), newestFirst)
	if len(sorted) == 0 {
		return errors.New("no node has a secret")
	}
	newest := sorted[0]
	if len(sorted) > 1 && newest.Made.Equal(sorted[1].Made) {
		return fmt.Errorf("the nodes hold the secrets %s and %s, and nothing says which one is newer (made=TIME behind it in the file): finish by hand", newest.Fingerprint, sorted[1].Fingerprint)
	}
	keeper := r.n.o.Secrets
	s, ok := keeper.List().Find(newest.Fingerprint)
	if !ok {
		return fmt.Errorf("secret %s is the newest, and only %s has it, not this leader, node %q: no node gives a secret away; put it into the file of every node, or have one lead that has it (shardway step-down), then run it again",
			newest.Fingerprint, strings.Join(at[newest.Fingerprint], ", "), r.n.self)
	}
	if err := s.Dated(time.Now()); err != nil {
		return err
	}
	if len(sorted) > 1 {
		r.target = s
		return nil
	}
	made := time.Now()
	if last := s.Made().Add(time.Second); last.After(made) {
		made = last
	}
	r.target = secret.Generate(made).Rotated()
	return keeper.Install(r.target, keeper.List())
}

func newestFirst(a, b secret.Held) int {
	return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// ensure has every node take a step that has not, until all have, and returns
// what they hold then.
func (r *rotation) ensure(ctx context.Context, do string, done func(witness, string) bool) (map[string]witness, error) {
	f := r.target.Fingerprint()
	for range stepTries {
		all, err := r.gather(ctx)
		if err != nil {
			return nil, err
		}
		var todo []string
		for _, node := range slices.Sorted(maps.Keys(all)) {
			if !done(all[node], f) {
				todo = append(todo, node)
			}
		}
		if len(todo) == 0 {
			return all, nil
		}
		step := func([]byte) (any, error) { return secretStep{Do: do, Fingerprint: f}, nil }
		if do == secretInstall {
			if step, err = r.handOver(all, todo); err != nil {
				return nil, err
			}
		}
		if _, err := r.tell(ctx, todo, do, step); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nodes go on coming in that have not taken it")
}

// handOver returns the step that gives the nodes of todo the new secret, or why
// they shall not get it.
func (r *rotation) handOver(all map[string]witness, todo []string) (func(binding []byte) (any, error), error) {
	f, lack := r.target.Fingerprint(), strings.Join(todo, ", ")
	if !r.target.ByRotation() {
		return nil, fmt.Errorf("secret %s was not made by a rotation, so no node sends it to another: put it into the file of %s (shardway rotate --help), or remove that node if nobody knows it", f, lack)
	}
	var used []secret.Held
	for node, w := range all {
		if w.uses(f) {
			return nil, fmt.Errorf("node %q uses the secret %s already, so it is sent to nobody any more: put it into the file of %s", node, f, lack)
		}
		if len(w.held) > 0 {
			used = append(used, w.held[0])
		}
	}
	newest := slices.MinFunc(used, newestFirst).Fingerprint
	by, ok := r.n.o.Secrets.List().Find(newest)
	if !ok {
		return nil, fmt.Errorf("secret %s is in use and this leader, node %q, does not have it: put it into its file", newest, r.n.self)
	}
	for _, node := range todo {
		if !all[node].shown.Has(by) {
			return nil, fmt.Errorf("node %q has not shown the secret %s that others use: put it into its file", node, newest)
		}
	}
	return func(binding []byte) (any, error) {
		wrapped, err := by.Wrap(binding, []byte(r.target.Line()))
		return secretStep{Do: secretInstall, Fingerprint: f, By: newest, Wrapped: wrapped}, err
	}, nil
}

// gather asks every node what it holds.
func (r *rotation) gather(ctx context.Context) (map[string]witness, error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	return r.tell(ctx, nodes, secretShow, func([]byte) (any, error) { return secretStep{Do: secretShow}, nil })
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
func (r *rotation) tell(ctx context.Context, nodes []string, do string, step func(binding []byte) (any, error)) (map[string]witness, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	all := make(map[string]witness, len(nodes))
	missing := map[string]error{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range nodes {
		asked.Go(func() {
			var w witness
			var err error
			if node == string(r.n.self) {
				w, err = r.own(do)
			} else {
				var state secretState
				w.shown, err = r.n.askProven(ctx, node, askSecret, step, &state)
				w.held = state.Held
			}
			mu.Lock()
			defer mu.Unlock()
			if all[node] = w; err != nil {
				missing[node] = err
			}
		})
	}
	asked.Wait()
	if len(missing) == 0 {
		return all, nil
	}
	var why []string
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		why = append(why, fmt.Sprintf("node %q is missing (%v)", node, missing[node]))
	}
	return nil, errors.New(strings.Join(why, "; "))
}

// own takes a step at the leader itself, which has the new secret first.
func (r *rotation) own(do string) (witness, error) {
	k := r.n.o.Secrets
	var err error
	switch do {
	case secretUse:
		err = k.Use(r.target.Fingerprint(), k.List())
	case secretRetire:
		err = k.Retire(r.target.Fingerprint(), k.List())
	}
	return witness{held: k.Held(), shown: k.List()}, err
}
