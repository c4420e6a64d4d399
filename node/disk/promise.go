package disk

// promise is the content of promise.json: a node that belongs to no cluster lets
// another one found it.
type promise struct {
	Format int    `json:"format"`
	To     string `json:"to"`
}

const promiseFile = "promise.json"

// Promised returns the node that was promised last, "" for none.
func (d *Dir) Promised() (to string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var p promise
	_, err = load(d.b, promiseFile, &p)
	return p.To, err
}

// Promise keeps, durably, which node may found the cluster; "" takes it back.
func (d *Dir) Promise(to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return errClosed
	}
	return save(d.b, promiseFile, promise{Format: format, To: to})
}
