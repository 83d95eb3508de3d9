// Command askback calls tools that ask back and answers what they ask, parks such calls and resumes them; it serves
// example tools, makes and rotates the keys that seal requestState, and shows what a requestState holds.
package main

import "os"

func main() { os.Exit(run()) }
