"""Cache the run directories of a home in `<home>/index.db`, so that a done run costs one `stat` and opens no file.

    indexed_runs   states(home, ids): id -> RunState; descriptions(home, ids): id -> name, axes and files
    configs        nearest(home, run): the run whose config differs in the fewest values

The cache may be deleted at any time; without it every function returns the same result more slowly. A cached file
(result.json, meta.json, config.yaml) is used only if its stamp (inode, size, times of the last change of content and
inode) is the one taken before the file was read, so an edited, replaced, removed or copied file is read again. The
state of a started run without result.json is always read from its directory.
"""
