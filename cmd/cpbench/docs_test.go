package main

import "flag"

var update = flag.Bool("update", false, "write the generated references and the golden parts of the scripts")
