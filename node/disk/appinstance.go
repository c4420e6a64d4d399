package disk

import "fmt"

// MaxAppInstance is the maximum length of a stored app instance in bytes.
const MaxAppInstance = 256

// appInstance is the content of app.json.
type appInstance struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"`
}

const appFile = "app.json"

// furtherAppFile returns the file of an app instance after the first one.
func furtherAppFile(number int) string { return fmt.Sprintf("app-%d.json", number+1) }

// FurtherAppInstance is AppInstance for an app instance after the first one, which has the index zero.
func (d *Dir) FurtherAppInstance(index int) (string, error) {
	var stored appInstance
	_, err := loadFile(d.backend, furtherAppFile(index), &stored)
	return stored.Instance, err
}

// StoreFurtherAppInstance is StoreAppInstance for an app instance after the first one.
func (d *Dir) StoreFurtherAppInstance(index int, instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	return d.saveUnlocked(furtherAppFile(index), appInstance{Format: format, Instance: instance})
}

// AppInstance returns the app instance that StoreAppInstance stored last, "" if there is
// none.
func (d *Dir) AppInstance() (string, error) {
	var stored appInstance
	_, err := loadFile(d.backend, appFile, &stored)
	return stored.Instance, err
}

// StoreAppInstance durably stores the app instance that the node has seen. instance must
// have 1 to MaxAppInstance bytes. Calls must not overlap. The call waits for the disk, but
// other methods of d do not wait for the call.
func (d *Dir) StoreAppInstance(instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	return d.saveUnlocked(appFile, appInstance{Format: format, Instance: instance})
}

// saveUnlocked writes a file durably without holding a lock, so that Boot and Cluster do not block
// if the disk hangs. Calls for the same file must not overlap.
func (d *Dir) saveUnlocked(name string, content any) error {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return errClosed
	}
	return saveFile(d.backend, name, content)
}
