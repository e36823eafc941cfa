-- compatible: no
-- Every document. The table is its own primary key's tree (WITHOUT ROWID): a look-up by key is one
-- walk down, and documents written in key order are appended.
CREATE TABLE documents (
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    body       BLOB NOT NULL,
    PRIMARY KEY (collection, key)
) STRICT, WITHOUT ROWID;
