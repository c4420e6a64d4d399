package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"shardway/admin/api"
)

type hotCommand struct {
	Limit int `help:"Maximum number of shards and of keys to show." default:"10" placeholder:"N"`
	serviceFilterFlag
	target
}

// Help explains the columns.
func (c *hotCommand) Help() string {
	return `Rates are means over about ten seconds. BUSY is the number of concurrent requests of the
shard at its app. NODE contains NODE/INSTANCE if a node has several app instances. Keys
are estimated from one request in 16 at the nodes that accept requests of clients. A key
is shown as its key_hash, or as text with --access-log-keys.
Keys with requests beyond --key-limit follow in a separate table.`
}

// Run prints the shards and the keys with the highest load.
func (c *hotCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	hot, err := client.Hot(ctx)
	if err != nil {
		return err
	}
	filters, err := filtersService(ctx, client, c.Service)
	if err != nil {
		return err
	}
	if filters {
		hot = hotOfService(hot, c.Service)
	}
	limit := max(c.Limit, 0)
	hot.Shards, hot.Keys = hot.Shards[:min(len(hot.Shards), limit)], hot.Keys[:min(len(hot.Keys), limit)]
	hot.Limited = hot.Limited[:min(len(hot.Limited), limit)]
	if c.JSON {
		return writeJSON(session.out, hot)
	}
	hasServices := slices.ContainsFunc(hot.Shards, func(shard api.HotShard) bool { return shard.Service != "" })
	table := newTable(session.out, withService(hasServices, "SERVICE", "SHARD", "NODE", "REQUESTS/S", "BUSY", "KB/S", "WEBSOCKETS")...)
	for _, shard := range hot.Shards {
		table.row(withService[any](hasServices, shard.Service, shardNumber(shard.Shard, shard.ServiceShard), ownerName(shard.Node, shard.Instance), formatRate(shard.Requests), fmt.Sprintf("%.2f", shard.Busy), formatRate(shard.Bytes/bytesPerKB), shard.Sockets)...)
	}
	if err = table.flush(); err != nil {
		return err
	}
	if _, err = fmt.Fprintln(session.out); err != nil {
		return err
	}
	if err = writeHotKeys(session.out, "KEY-HASH", "REQUESTS/S", hot.Keys); err != nil {
		return err
	}
	if err = writeLimited(session, hot.Limited); err != nil {
		return err
	}
	return writeUnresponsive(session.out, hot.Unresponsive)
}

// writeLimited prints the keys that exceed a limit, if there are any.
func writeLimited(session *session, keys []api.HotKey) error {
	if len(keys) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(session.out); err != nil {
		return err
	}
	return writeHotKeys(session.out, "LIMITED-KEY", "REFUSED/S", keys)
}

// writeHotKeys prints one row for each key.
func writeHotKeys(w io.Writer, hashColumn, rateColumn string, keys []api.HotKey) error {
	hasServices := slices.ContainsFunc(keys, func(key api.HotKey) bool { return key.Service != "" })
	table := newTable(w, withService(hasServices, "SERVICE", hashColumn, "SHARD", "NODE", rateColumn, "KEY")...)
	for _, key := range keys {
		table.row(withService[any](hasServices, key.Service, key.Hash, shardNumber(key.Shard, key.ServiceShard), ownerName(key.Node, key.Instance), formatRate(key.Requests), key.Key)...)
	}
	return table.flush()
}

// hotOfService returns the shards and the keys of one service.
func hotOfService(hot api.HotList, service string) api.HotList {
	isOther := func(key api.HotKey) bool { return key.Service != service }
	hot.Shards = slices.DeleteFunc(hot.Shards, func(shard api.HotShard) bool { return shard.Service != service })
	hot.Keys, hot.Limited = slices.DeleteFunc(hot.Keys, isOther), slices.DeleteFunc(hot.Limited, isOther)
	return hot
}
