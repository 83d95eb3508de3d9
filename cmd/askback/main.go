// Command askback serves the example tools that ask back, makes and rotates the keys that seal requestState, and
// shows what a requestState holds.
package main

import "os"

func main() { os.Exit(run()) }
