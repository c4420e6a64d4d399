package disk

// promise is the content of promise.json: a node without a cluster has agreed that another
// node creates it.
type promise struct {
	Format int    `json:"format"`
	To     string `json:"to"`
}

const promiseFile = "promise.json"

// PromisedNode returns the node that StorePromise stored last, "" if there is none.
func (d *Dir) PromisedNode() (node string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var stored promise
	_, err = loadFile(d.backend, promiseFile, &stored)
	return stored.To, err
}

// StorePromise durably stores which node may create the cluster. "" withdraws the promise.
func (d *Dir) StorePromise(node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return saveFile(d.backend, promiseFile, promise{Format: format, To: node})
}
