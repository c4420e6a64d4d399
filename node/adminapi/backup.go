package adminapi

import (
	"fmt"

	"shardway/admin/api"
)

// Backup returns the content of a backup file: the replicated state that this node has applied. Any node's backup
// can be restored, even an old one: the restored cluster starts with an epoch above all epochs used since the
// backup.
func (a *API) Backup() ([]byte, error) {
	replicated := a.options.View.State()
	if !replicated.Bootstrapped() {
		return nil, fmt.Errorf("%w: node %q belongs to no cluster yet", api.ErrRefused, a.options.Self)
	}
	return replicated.BackupWithRegistry(a.options.Registry.Marshal())
}
