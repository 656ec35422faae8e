/** Runs the programs that both versions of Scala share. */
object Main {
  def main(arguments: Array[String]): Unit = {
    CallStyles.run()
    FirstProgram.main(arguments)
  }
}
