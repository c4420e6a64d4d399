package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"shardway/admin/api"
)

type lockCommand struct {
	List    lockListCommand    `cmd:"" default:"withargs" help:"List the locks, their holders and waiters."`
	Acquire lockAcquireCommand `cmd:"" help:"Get a lock with a fencing token."`
	Renew   lockRenewCommand   `cmd:"" help:"Restart the time to live of a lock."`
	Release lockReleaseCommand `cmd:"" help:"Give a lock back."`
}

type lockListCommand struct{ target }

// Help explains the columns.
func (c *lockListCommand) Help() string {
	return `TOKEN is the fencing token of the holder, and CONTENDED the number of requests of other
holders since the lock was last free. WAITERS get the lock in this order. The node must
run with --registry.`
}

// Run prints the locks.
func (c *lockListCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Locks(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	table := newTable(session.out, "LOCK", "HOLDER", "TOKEN", "TTL", "CONTENDED", "WAITERS")
	for _, lock := range list.Locks {
		table.row(lock.Name, lock.Holder, lock.Token, lock.TTL, lock.Contended, strings.Join(lock.Waiters, ","))
	}
	return table.flush()
}

// lockFlags contains the arguments of all commands about one lock.
type lockFlags struct {
	Name   string `arg:"" help:"Name of the lock."`
	Holder string `required:"" help:"Text that identifies the holder, such as a process." placeholder:"TEXT"`
}

type lockAcquireCommand struct {
	lockFlags
	TTL  time.Duration `name:"ttl" default:"30s" help:"Time to live without a renewal (default: 30s)." placeholder:"DURATION"`
	Wait time.Duration `help:"Maximum time to wait for the lock (default: 0s)." placeholder:"DURATION"`
	target
}

// Help explains the token.
func (c *lockAcquireCommand) Help() string {
	return `The output is the fencing token. Pass it to the store that the lock protects, and let the
store refuse lower tokens than the highest one so far. A repeated command with the same
holder gets the same token and restarts the time to live.`
}

// Run acquires a lock and prints the token.
func (c *lockAcquireCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	request := api.LockRequest{Name: c.Name, Holder: c.Holder, TTL: c.TTL.String()}
	if c.Wait > 0 {
		request.Wait = c.Wait.String()
	}
	grant, err := client.AcquireLock(ctx, request)
	if err != nil {
		return err
	}
	return c.writeGrant(session, grant)
}

// writeGrant prints the token of a grant.
func (t *target) writeGrant(session *session, grant api.LockGrant) error {
	if t.JSON {
		return writeJSON(session.out, grant)
	}
	_, err := fmt.Fprintln(session.out, grant.Token)
	return err
}

type lockRenewCommand struct {
	lockFlags
	Token uint64        `required:"" help:"Token of the lock." placeholder:"N"`
	TTL   time.Duration `name:"ttl" help:"New time to live (default: unchanged)." placeholder:"DURATION"`
	target
}

// Run renews a lock and prints the token.
func (c *lockRenewCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	request := api.LockRequest{Name: c.Name, Holder: c.Holder, Token: c.Token}
	if c.TTL > 0 {
		request.TTL = c.TTL.String()
	}
	grant, err := client.RenewLock(ctx, request)
	if err != nil {
		return err
	}
	return c.writeGrant(session, grant)
}

type lockReleaseCommand struct {
	lockFlags
	Token uint64 `required:"" help:"Token of the lock." placeholder:"N"`
	target
}

// Run releases a lock.
func (c *lockReleaseCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	released, err := client.ReleaseLock(ctx, api.LockRequest{Name: c.Name, Holder: c.Holder, Token: c.Token})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, released)
	}
	_, err = fmt.Fprintf(session.out, "lock %s is released\n", c.Name)
	return err
}
