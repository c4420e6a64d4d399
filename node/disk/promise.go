package disk

// promise is the content of promise.json: a node without a cluster has agreed that another
// node creates it.
type promise struct {
	Format int    `json:"format"`
	To     string `json:"to"`
}

const promiseFile = "promise.json"

// Promised returns the node that Promise stored last, "" if there is none.
func (d *Dir) Promised() (to string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var p promise
	_, err = load(d.b, promiseFile, &p)
	return p.To, err
}

// Promise durably stores which node may create the cluster. "" withdraws the promise.
func (d *Dir) Promise(to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return save(d.b, promiseFile, promise{Format: format, To: to})
}
